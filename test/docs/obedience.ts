import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { expect } from "vitest";

type Post = (path: string, body?: object) => Promise<unknown>;

/** Sends commands to a node that accepts them. */
export const postTo =
  (url: string): Post =>
  async (path, body = {}) => {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    expect(response.status, path).toBe(200);
  };

/**
 * Expects of a program of a page, which prints what it would play for the session `song`, that it obeys a prompt above
 * it and a call. Returns what reads its next line.
 */
export async function expectObedience(stdout: Readable, post: Post): Promise<() => Promise<string | undefined>> {
  const lines = createInterface(stdout)[Symbol.asyncIterator]();
  const next = async () => (await lines.next()).value;
  await post("/session/song/activate");
  expect(await next()).toBe("play");
  await post("/session/create", { id: "left", agentId: "prompt_agent", userId: "ann", activate: true });
  expect(await next()).toBe("play at -14 dB");
  await post("/session/left/archive");
  expect(await next()).toBe("play");
  await post("/session/create", { id: "ring", agentId: "phone_agent", userId: "ann", activate: true });
  expect(await next()).toBe("silence");
  await post("/session/ring/archive");
  expect(await next()).toBe("play");
  return next;
}
