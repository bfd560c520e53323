import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { ChildServer } from "../nodes/child-server.ts";
import type { AnswerBody } from "../nodes/node-under-test.ts";

/**
 * Posts as a client is told to: while the outcome is not known, as on a machine that is busy or while a server is away,
 * once more with the same key.
 */
export async function postUntilKnown(node: ChildServer, path: string, body: object, key: string = randomUUID()) {
  for (;;) {
    const answer = await node.post(path, body, key);
    if (answer.body.errorCode !== "unavailable") return answer;
  }
}

/** Creates a session that asks for the floor of its own user, or of the user among these fields. */
export async function create(node: ChildServer, id: string, agentId: string, fields: object = {}): Promise<AnswerBody> {
  const session = { id, agentId, userId: id, activate: true, ...fields };
  const { status, body } = await postUntilKnown(node, "/session/create", session);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
}

/** Begins a turn. @returns the id of its run */
export async function say(node: ChildServer, sessionId: string, content = "go", key?: string): Promise<string> {
  const { status, body } = await postUntilKnown(node, "/message", { type: "chat", sessionId, content }, key);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.runId;
}

/** The number of events of a session. */
export async function headOf(node: ChildServer, id: string): Promise<number> {
  return Number((await node.ask("GET", `/session/${id}`)).body.position.split(".")[1]);
}

export async function messagesOf(node: ChildServer, id: string): Promise<AnswerBody["messages"]> {
  return (await node.ask("GET", `/session/${id}/messages?limit=500`)).body.messages;
}

/** The answer to `GET /ready`: its status, and what is missing. */
export async function readiness(node: ChildServer): Promise<[status: number, missing: string[]]> {
  const { status, body } = await node.ask("GET", "/ready");
  return [status, body.missing];
}

/** The value of a line of a node's metrics; undefined if it is missing. */
export async function metricOf({ url }: { url: string }, line: string): Promise<number | undefined> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = text.split("\n").find((each) => each.startsWith(`${line} `));
  return found === undefined ? undefined : Number(found.slice(line.length + 1));
}
