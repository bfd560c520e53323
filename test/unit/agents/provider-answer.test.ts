import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { play, playToFailure, textOf, turnOf } from "../../support/agents/run-stage.ts";
import { testRegistry } from "../../support/agents/test-registry.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const STREAM = "text/event-stream";
const JSON_TYPE = "application/json";
const KEY = "sk-SECRET-0815";

/** A model whose provider answers every request with this body and status 200. */
async function modelOf(provider: string, type: string, body: string) {
  const server = createServer((_, response) => response.writeHead(200, { "content-type": type }).end(body));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const adapter = { kind: "ai-sdk", provider, model: "m", base_url: `http://${host}/v1`, api_key_env: "MY_KEY" };
  const catalog = makeCatalog([{ name: "subject", adapter }]);
  const registry = testRegistry({ catalog: () => catalog, env: { MY_KEY: KEY }, random: () => 1 });
  return { agent: registry.find("subject" as AgentId)!, host };
}

const frames = (...events: (object | string)[]) =>
  events.map((each) => `data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`).join("");
const chunk = (delta: object, finish_reason: string | null = null, rest: object = {}) => ({
  id: "c",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason }],
  ...rest,
});
const HELLO = [chunk({ role: "assistant", content: "Hello " }), chunk({ content: "there." })];
const whole = (message: object) => JSON.stringify({ id: "c", choices: [{ index: 0, message, finish_reason: "stop" }] });
const usage = (count: unknown) => ({ prompt_tokens: count, completion_tokens: count, total_tokens: count });

test.each<[string, string, string]>([
  [
    "no choices beside its usage",
    STREAM,
    frames(...HELLO, chunk({}, "stop"), { ...chunk({}), choices: null, usage: usage(1) }, "[DONE]"),
  ],
  ["its usage as strings", STREAM, frames(...HELLO, chunk({}, "stop", { usage: usage("1") }), "[DONE]")],
  ["no finish reason before its end", STREAM, frames(...HELLO, "[DONE]")],
  ["no empty line after its end", STREAM, frames(...HELLO, "[DONE]").trimEnd()],
  ["more after its end", STREAM, frames(...HELLO, chunk({}, "stop"), "[DONE]", "{not json}")],
  ["JSON in place of a stream", JSON_TYPE, whole({ role: "assistant", content: "Hello there." })],
])("a reply with %s is whole", async (_, type, body) => {
  const { agent } = await modelOf("openai-compatible", type, body);
  const parts = await play(agent, turnOf("hi"));
  expect(textOf(parts)).toBe("Hello there.");
  expect(parts.filter((part) => part.type === "finish")).toEqual([]);
});

const google = (...candidates: object[]) => frames(...candidates.map((each) => ({ candidates: [each] })));
const said = { index: 0, content: { role: "model", parts: [{ text: "Turn left and" }] } };

test.each([
  ...["error", "insufficient_system_resource", "abort", "network_error"].map((word) => [
    "openai-compatible",
    word,
    frames(chunk({ content: "Turn left and" }), chunk({}, word), "[DONE]"),
  ]),
  ...["OTHER", "LANGUAGE", "FINISH_REASON_UNSPECIFIED", "MALFORMED_RESPONSE"].map((word) => [
    "google",
    word,
    google(said, { index: 0, finishReason: word }),
  ]),
] as [string, string, string][])("a reply of %s that was cut with %s is incomplete", async (provider, word, body) => {
  const { agent } = await modelOf(provider, STREAM, body);
  const parts = await play(agent, turnOf("hi"));
  expect(textOf(parts)).toBe("Turn left and");
  expect(parts.filter((part) => part.type === "finish")).toEqual([{ type: "finish", reason: "incomplete", word }]);
});

test("a reply that was cut before its first word is a failure with the provider's word", async () => {
  const { agent } = await modelOf("openai-compatible", STREAM, frames(chunk({}, "network_error"), "[DONE]"));
  const { failure } = await playToFailure(agent, turnOf("hi"));
  expect(failure).toMatchObject({ code: "provider_unreachable", message: expect.stringContaining("network_error") });
});

test.each<[string, string, string, string, string, RegExp, RegExp]>([
  [
    "an error as JSON",
    "openai-compatible",
    JSON_TYPE,
    JSON.stringify({ error: { message: "No endpoints found", code: 404 } }),
    "provider_refused",
    /: No endpoints found$/,
    /“No endpoints found”$/,
  ],
  [
    "an error in a stream",
    "openai-compatible",
    STREAM,
    frames({ object: "error", message: "longer than the context", type: "BadRequestError", code: 400 }, "[DONE]"),
    "provider_refused",
    /: longer than the context$/,
    / 400 .*“longer than the context”$/,
  ],
  [
    "an error that names the key and an address",
    "openai-compatible",
    JSON_TYPE,
    JSON.stringify({ error: { message: `${KEY} failed at http://10.0.0.1/x`, code: 400 } }),
    "provider_refused",
    /: … failed at …$/,
    /“… failed at …”$/,
  ],
  ["a page", "openai-compatible", "text/html", "<html>", "provider_unreachable", /cannot be read/, /a page/],
  ["JSON of another kind", "openai-compatible", JSON_TYPE, "[]", "provider_unreachable", /cannot be read/, /no reply/],
  [
    "a stream that is not JSON",
    "anthropic",
    STREAM,
    frames("{not json}"),
    "provider_unreachable",
    /provider/,
    /answered|AI_/,
  ],
  ["an unknown event", "anthropic", STREAM, frames({ type: "hello" }), "provider_unreachable", /provider/, /./],
  [
    "an error that is a word",
    "anthropic",
    STREAM,
    frames({ type: "error", error: "boom" }),
    "provider_unreachable",
    /provider/,
    /boom/,
  ],
])("%s from a provider is a failure with its reason", async (_, provider, type, body, code, message, reason) => {
  const { agent, host } = await modelOf(provider, type, body);
  const failure = (await playToFailure(agent, turnOf("hi"))).failure as AppError;
  expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
  const cause = (failure.cause as Error).message;
  expect(cause).toMatch(reason);
  expect(cause.startsWith(host)).toBe(true);
  expect(`${failure.message} ${cause}`).not.toContain(KEY);
});

test("a provider that does not listen is a failure with its host and the connection's reason", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  const base_url = `http://127.0.0.1:${port}/v1`;
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url };
  const registry = testRegistry({
    catalog: () => makeCatalog([{ name: "subject", adapter }]),
    env: {},
    random: () => 1,
  });
  const { failure } = await playToFailure(registry.find("subject" as AgentId)!, turnOf("hi"));
  const cause = { message: expect.stringMatching(/^127\.0\.0\.1:\d+ .*ECONNREFUSED$/) };
  expect(failure).toMatchObject({ code: "provider_unreachable", cause });
});
