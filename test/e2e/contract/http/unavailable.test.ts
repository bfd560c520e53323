import { expect, test } from "vitest";
import { MemoryBus } from "../../../../src/bus/memory-bus.ts";
import { SystemClock } from "../../../../src/system/system-clock.ts";
import { openGateway } from "../../../support/nodes/gateway-stage.ts";
import type { AnswerBody } from "../../../support/nodes/node-under-test.ts";
import { openTemporaryStore } from "../../../support/stores/temporary-store.ts";

/** A gateway without a host: the answers to clients while no floor can be asked. */
async function knock() {
  const clock = new SystemClock();
  const { url } = await openGateway({ store: await openTemporaryStore(clock), bus: new MemoryBus(), clock });
  return async (method: string, path: string, headers: Record<string, string> = {}, body = "{}") => {
    const type = { "Content-Type": "application/json" };
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...type, ...headers },
      ...(method !== "GET" && { body }),
    });
    return { status: response.status, body: (await response.json()) as AnswerBody };
  };
}

test("a command with an unknown outcome is 503, with a key for its repeat: the client's own if it has one", async () => {
  const ask = await knock();
  const { status, body } = await ask("POST", "/session/create");
  expect(status).toBe(503);
  expect(body).toEqual({
    success: false,
    errorCode: "unavailable",
    error: expect.any(String),
    retryable: true,
    traceId: expect.any(String),
    commandId: expect.stringMatching(/^[\x21-\x7e]{1,128}$/),
  });
  for (const key of [body.commandId, "mine"]) {
    expect((await ask("POST", "/session/create", { "Idempotency-Key": key })).body.commandId).toBe(key);
  }
  const chat = JSON.stringify({ type: "chat", content: "hello", commandId: "also-mine" });
  expect((await ask("POST", "/message", {}, chat)).body).toMatchObject({ commandId: "also-mine", retryable: true });
});

test("reads are answered while commands are unavailable", async () => {
  const ask = await knock();
  for (const path of ["/session/list", "/floor/u%3Aann", "/agents", "/health", "/ready"]) {
    expect((await ask("GET", path)).status, path).toBe(200);
  }
  expect((await ask("GET", "/session/nowhere")).body.errorCode).toBe("session_not_found");
});
