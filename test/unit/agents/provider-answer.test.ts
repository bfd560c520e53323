import { expect, onTestFinished, test } from "vitest";
import type { AppError } from "../../../src/protocol/errors.ts";
import { ofType, play, playToFailure, textOf, turnOf } from "../../support/agents/run-stage.ts";
import { subjectOf } from "../../support/agents/test-registry.ts";
import { SmallServer } from "../../support/servers/small-server.ts";

const STREAM = "text/event-stream";
const JSON_TYPE = "application/json";
const KEY = "sk-SECRET-0815";

/** A model whose provider answers every request with this body and status 200. */
async function modelOf(provider: string, type: string, body: string) {
  const server = await SmallServer.start((response) => response.writeHead(200, { "content-type": type }).end(body));
  onTestFinished(() => server[Symbol.asyncDispose]());
  return { agent: agentAt(server.url, provider), host: new URL(server.url).host };
}

function agentAt(url: string, provider: string) {
  const adapter = { kind: "ai-sdk", provider, model: "m", base_url: `${url}/v1`, api_key_env: "MY_KEY" };
  return subjectOf({ adapter }, { env: { MY_KEY: KEY }, random: () => 1 }).agent;
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
  expect(ofType(parts, "finish")).toEqual([]);
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
  expect(ofType(parts, "finish")).toEqual([{ type: "finish", reason: "incomplete", word }]);
});

test("a reply that was cut before its first word is a failure with the provider's word", async () => {
  const { agent } = await modelOf("openai-compatible", STREAM, frames(chunk({}, "network_error"), "[DONE]"));
  const { failure } = await playToFailure(agent, turnOf("hi"));
  expect(failure).toMatchObject({ code: "provider_unreachable", message: expect.stringContaining("network_error") });
});

const compatible = (body: unknown, type = JSON_TYPE) => ["openai-compatible", type, body] as const;
const anthropic = (event: object | string) => ["anthropic", STREAM, frames(event)] as const;
const error = (message: string, code: number) => ({ error: { message, code } });
const TOO_LONG = { object: "error", message: "longer than the context", type: "BadRequestError", code: 400 };
const [REFUSED, UNREACHABLE] = ["provider_refused", "provider_unreachable"];

test.each([
  ["an error as JSON", compatible(error("Not found", 404)), REFUSED, /: Not found$/, /“Not found”$/],
  [
    "an error in a stream",
    compatible(frames(TOO_LONG, "[DONE]"), STREAM),
    REFUSED,
    /: longer than the context$/,
    / 400 .*“longer than the context”$/,
  ],
  [
    "an error that names the key and an address",
    compatible(error(`${KEY} failed at http://10.0.0.1/x`, 400)),
    REFUSED,
    /: … failed at …$/,
    /“… failed at …”$/,
  ],
  ["a page", compatible("<html>", "text/html"), UNREACHABLE, /cannot be read/, /a page/],
  ["JSON of another kind", compatible([]), UNREACHABLE, /cannot be read/, /no reply/],
  ["a stream that is not JSON", anthropic("{not json}"), UNREACHABLE, /provider/, /answered|AI_/],
  ["an unknown event", anthropic({ type: "hello" }), UNREACHABLE, /provider/, /./],
  ["an error that is a word", anthropic({ type: "error", error: "boom" }), UNREACHABLE, /provider/, /boom/],
] as const)("%s from a provider fails with its reason", async (_, [provider, type, body], code, message, reason) => {
  const { agent, host } = await modelOf(provider, type, typeof body === "string" ? body : JSON.stringify(body));
  const failure = (await playToFailure(agent, turnOf("hi"))).failure as AppError;
  expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
  const cause = (failure.cause as Error).message;
  expect(cause).toMatch(reason);
  expect(cause.startsWith(host)).toBe(true);
  expect(`${failure.message} ${cause}`).not.toContain(KEY);
});

test("a provider that does not listen is a failure with its host and the connection's reason", async () => {
  const server = await SmallServer.start(() => {});
  const { url } = server;
  await server[Symbol.asyncDispose]();
  const { failure } = await playToFailure(agentAt(url, "openai-compatible"), turnOf("hi"));
  const cause = { message: expect.stringMatching(/^127\.0\.0\.1:\d+ .*ECONNREFUSED$/) };
  expect(failure).toMatchObject({ code: "provider_unreachable", cause });
});
