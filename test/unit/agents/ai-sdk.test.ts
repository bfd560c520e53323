import { inspect } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import {
  createRunStage,
  messageOf,
  ofType,
  play,
  playToFailure,
  textOf,
  turnOf,
} from "../../support/agents/run-stage.ts";
import { subjectOf } from "../../support/agents/test-registry.ts";
import { type ProviderReply, type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";
import { WIRES } from "../../support/servers/provider-wire.ts";

const KEY = "sk-SECRET-0815";
const PROMPT = "my private words";
const HEL = { kind: "stream", text: ["Hel"] } as const;
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

let server: ProviderServer;
beforeEach(async () => {
  server = await startProviderServer();
});
afterEach(() => server.close());

interface ModelOptions {
  /** Of the jitter; 1 by default. */
  random?: number;
  adapter?: object;
  env?: Record<string, string>;
  instructions?: string;
}

function model(
  provider: string,
  { random = 1, adapter, env = { MY_KEY: `${KEY}\n` }, ...rest }: ModelOptions = {},
): Agent {
  const own = {
    kind: "ai-sdk",
    provider,
    model: "model-x",
    base_url: server.baseUrl,
    api_key_env: "MY_KEY",
    ...adapter,
  };
  return subjectOf({ ...rest, adapter: own }, { env, random: () => random }).agent;
}

describe.each(Object.keys(WIRES) as (keyof typeof WIRES)[])("%s", (provider) => {
  test("a model's reasoning and text are streamed, and its token counts are mapped", async () => {
    server.willReply({
      kind: "stream",
      reasoning: ["Let me ", "think."],
      text: ["Hel", "lo"],
      usage: { input: 100, output: 7, cacheRead: 60, ...(provider === "anthropic" && { cacheWrite: 30 }) },
    });
    const usage = { prompt_tokens: 100, completion_tokens: 7, total_tokens: 107, cache_read_input_tokens: 60 };
    expect(await play(model(provider), turnOf(PROMPT))).toEqual([
      { type: "reasoning", text: "Let me " },
      { type: "reasoning", text: "think." },
      { type: "text", text: "Hel" },
      { type: "text", text: "lo" },
      { type: "usage", usage: { ...usage, ...(provider === "anthropic" && { cache_creation_input_tokens: 30 }) } },
    ]);
  });

  test("text between think tags is reasoning where the catalogue says so, and text elsewhere", async () => {
    const text = ["<th", "ink>Let me think.</thi", "nk>", "Hel", "lo <b>you</b>"];
    const joined = async (adapter: object) => {
      server.willReply({ kind: "stream", text });
      const parts = await play(model(provider, { adapter }), turnOf(PROMPT));
      const of = (type: string) =>
        parts.map((part) => (part.type === type && "text" in part ? part.text : "")).join("");
      return { reasoning: of("reasoning"), text: of("text") };
    };
    expect(await joined({ reasoning: "tags" })).toEqual({ reasoning: "Let me think.", text: "Hello <b>you</b>" });
    expect(await joined({})).toEqual({ reasoning: "", text: text.join("") });
  });

  test("a request goes to the catalogue's model at its address, with its key and instructions, and OpenAI stores nothing", async () => {
    server.willReply({ kind: "stream", text: ["ok"] });
    await play(model(provider, { instructions: "Be brief." }), turnOf(PROMPT));
    const [request] = server.requests;
    expect(request!.path).toBe(`/v1${provider === "google" ? "/models/model-x" : ""}${WIRES[provider].path}`);
    const { authorization, "x-api-key": anthropic, "x-goog-api-key": google } = request!.headers;
    expect([authorization, anthropic, google].filter(Boolean)).toEqual([
      provider === "anthropic" || provider === "google" ? KEY : `Bearer ${KEY}`,
    ]);
    if (provider !== "google") expect(JSON.parse(request!.body)).toMatchObject({ model: "model-x", stream: true });
    if (provider === "openai") expect(JSON.parse(request!.body)).toMatchObject({ store: false });
    expect(request!.body).toContain("Be brief.");
    expect(request!.body).toContain(PROMPT);
  });

  test("a request contains the images of a message", async () => {
    server.willReply({ kind: "stream", text: ["A dot."] });
    const stage = createRunStage();
    const images = [stage.storeImage(PNG, "image/png")];
    await play(model(provider), turnOf("", { input: messageOf("user", "What is it?", { images }) }), stage);
    expect(server.requests[0]!.body).toContain(PNG.toString("base64"));
    expect(server.requests[0]!.body).toContain("image/png");
  });

  const [LIMITED, REFUSED, UNREACHABLE] = ["provider_rate_limited", "provider_refused", "provider_unreachable"];
  const later = { kind: "refusal", status: 429, headers: { "retry-after": "7" } } as const;
  const early = { kind: "stream", ending: "early" } as const;
  const overloaded = { type: "overloaded_error", message: "Overloaded" };
  const limited = { type: "rate_limit_error", message: "slow down" };
  const refused = (status: number, reason: string) => {
    const message = `The model's provider refused the request (${status} invalid_request_error)${reason}`;
    return { code: REFUSED, message, retryable: false };
  };
  const invalid = (status: number) => ({ kind: "refusal", status, error: { type: "invalid_request_error" } }) as const;
  test.each<[string, ProviderReply[], string, object, number]>([
    ["a 429 is told with its delay", [later], "", { code: LIMITED, facts: { retryAfterMs: 7_000 } }, 1],
    ["status 400 is a refusal with its reason", [invalid(400)], "", refused(400, ": some message"), 1],
    ["status 401 is a refusal without the provider's words", [invalid(401)], "", refused(401, "."), 1],
    ["status 404 is a refusal with its reason", [invalid(404)], "", refused(404, ": some message"), 1],
    [
      "a reply that is filtered completely is a refusal",
      [{ kind: "stream", ending: "filtered" }],
      "",
      { code: REFUSED },
      1,
    ],
    ["an empty stream is not a reply", [early, early, early], "", { code: UNREACHABLE }, 3],
    ["a reply is not retried when its connection breaks", [{ ...HEL, ending: "cut" }], "Hel", { code: UNREACHABLE }, 1],
    ["a reply is not retried without its last event", [{ ...HEL, ending: "early" }], "Hel", { code: UNREACHABLE }, 1],
    [
      "errors inside a stream are reported",
      [
        { kind: "stream", ending: overloaded },
        { ...HEL, ending: limited },
      ],
      "Hel",
      { code: LIMITED },
      2,
    ],
  ])("%s", async (_, replies, said, expected, asked) => {
    server.willReply(...replies);
    const { parts, failure } = await playToFailure(model(provider), turnOf(PROMPT));
    const spoken = parts.filter(({ type }) => type !== "usage");
    expect(spoken).toEqual(said === "" ? [] : [{ type: "text", text: said }]);
    expect(failure).toMatchObject(expected);
    expect(server.requests).toHaveLength(asked);
  });

  test("a failing provider is asked three times, with growing delays", async () => {
    server.willReply({ kind: "refusal", status: 500 }, { kind: "cut" }, { kind: "refusal", status: 529 });
    const stage = createRunStage();
    const { failure } = await playToFailure(model(provider), turnOf(PROMPT), stage);
    expect(failure).toMatchObject({ code: "provider_unreachable", retryable: true });
    expect(server.requests).toHaveLength(3);
    expect(stage.sleeps).toEqual([500, 1_000]);
  });

  test("a failure that a retry resolved is not reported", async () => {
    server.willReply({ kind: "cut" }, { kind: "stream", ending: "cut" }, { kind: "stream", text: ["Hello"] });
    expect(textOf(await play(model(provider), turnOf(PROMPT)))).toBe("Hello");
  });

  test.each([
    ["cut at the model's length limit", { text: ["Hel"], ending: "length" }, "length"],
    ["without a word", {}, "empty"],
    ["of reasoning alone", { reasoning: ["Hm."] }, "empty"],
    ["filtered in part", { text: ["I would rather not."], ending: "filtered" }, "content_filter"],
    ["that is whole", { text: ["Hel"] }, undefined],
    ["that is whole although its connection breaks", { text: ["Hello."], ending: "breaks" }, undefined],
    ...(provider === "google"
      ? []
      : [["whole on a connection that lingers", { text: ["Hi."], ending: "lingers" }, undefined] as const]),
  ] as const)("an incomplete reply is marked: %s", async (_, reply, reason) => {
    server.willReply({ kind: "stream", ...reply });
    const parts = await play(model(provider), turnOf(PROMPT));
    expect(textOf(parts)).toBe("text" in reply ? reply.text.join("") : "");
    expect(ofType(parts, "finish")).toEqual(reason ? [{ type: "finish", reason }] : []);
    expect(server.requests).toHaveLength(1);
  });

  test("an abort before the first token releases the connection", async () => {
    server.willReply({ kind: "stream", ending: "never" });
    const stage = createRunStage();
    const arrived = server.nextRequest();
    const next = model(provider).run(turnOf(PROMPT), stage.control)[Symbol.asyncIterator]().next();
    const request = await arrived;
    stage.abort();
    expect(await next).toEqual({ done: true, value: undefined });
    await request.closed;
    expect(server.requests).toHaveLength(1);
  });

  test.each([
    ["before a word of its answer", { kind: "stream", ending: "never" }, ""],
    ["in the middle of it", { kind: "stream", text: ["Hel"], ending: "never" }, "Hel"],
  ] as const)("a provider that falls silent %s is abandoned, and not asked again", async (_, reply, said) => {
    server.willReply(reply);
    const stage = createRunStage({ time: "stands" });
    const patient = { first_token_timeout: "20s", next_token_timeout: "5s" };
    const parts = model(provider, { adapter: patient }).run(turnOf(PROMPT), stage.control)[Symbol.asyncIterator]();
    const arrived = server.nextRequest();
    if (said !== "") expect(await parts.next()).toMatchObject({ value: { text: said } });
    const armed = said === "" ? arrived : stage.next("timer");
    let failure: (Error & { cause: Error }) | undefined;
    parts.next().then(
      () => expect.unreachable(),
      (fault) => (failure = fault),
    );
    await armed;
    stage.advance(said === "" ? 19_999 : 4_999);
    await new Promise(setImmediate);
    expect(failure).toBeUndefined();
    // Chunks that the provider sent before it stopped may still arrive.
    for (; !failure; await new Promise(setImmediate)) stage.advance(said === "" ? 1 : 5_000);
    const message = "The model's provider stopped responding.";
    expect(failure).toMatchObject({ code: "provider_unreachable", message });
    expect(failure.cause.message).toMatch(
      said === "" ? /^127\S+ no token for 20000 ms$/ : / no further token for 5000 ms$/,
    );
    await (await arrived).closed;
    expect([server.requests.length, stage.sleeps]).toEqual([1, []]);
    expect(stage.leftovers()).toEqual({ sleepers: 0, listeners: 0 });
  });

  test("time in which no part is pulled does not count as the provider's silence", async () => {
    server.willReply({ kind: "stream", text: ["Hel", "lo"] });
    const stage = createRunStage({ time: "stands" });
    const parts = model(provider).run(turnOf(PROMPT), stage.control)[Symbol.asyncIterator]();
    await parts.next();
    stage.advance(3_600_000);
    expect(await parts.next()).toMatchObject({ value: { text: "lo" } });
  });

  test("no failure logs the key or the prompt, or prints anything outside the log", async () => {
    const spies = [
      vi.spyOn(process.stderr, "write").mockReturnValue(true),
      vi.spyOn(console, "error").mockReturnValue(),
      vi.spyOn(process, "emitWarning").mockReturnValue(),
    ];
    const echo = { type: "invalid_api_key", message: `Incorrect API key provided: ${KEY}, in: ${PROMPT}` };
    try {
      server.willReply({ kind: "stream", text: ["ok"] });
      await play(model(provider), turnOf(PROMPT));
      for (const reply of [
        { kind: "refusal", status: 401, error: echo },
        { kind: "refusal", status: 429, error: { ...echo, type: KEY } },
        { kind: "stream", text: ["x"], ending: echo },
        { kind: "stream", text: ["x"], ending: "cut" },
      ] as const) {
        server.willReply(reply);
        const { failure } = await playToFailure(model(provider), turnOf(PROMPT));
        const inspected = inspect(failure, { depth: 20, showHidden: true });
        expect(inspected).not.toContain(KEY);
        expect(inspected).not.toContain(PROMPT);
      }
      expect(spies.flatMap((spy) => spy.mock.calls as unknown[])).toEqual([]);
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  });
});

test("jitter shortens a delay by up to half", async () => {
  server.willReply({ kind: "cut" }, { kind: "cut" }, { kind: "stream", text: ["ok"] });
  const stage = createRunStage();
  await play(model("openai", { random: 0 }), turnOf(PROMPT), stage);
  expect(stage.sleeps).toEqual([250, 500]);
});

test("a provider's delay is waited for if it is short; the user learns of a long one", async () => {
  const busy = (seconds: string) => ({ kind: "refusal", status: 503, headers: { "retry-after": seconds } }) as const;
  server.willReply(busy("3"), { kind: "stream", text: ["ok"] }, busy("120"));
  const stage = createRunStage();
  await play(model("anthropic"), turnOf(PROMPT), stage);
  const { failure } = await playToFailure(model("anthropic"), turnOf(PROMPT), stage);
  expect(failure).toMatchObject({ code: "provider_unreachable", facts: { retryAfterMs: 120_000 } });
  expect(stage.sleeps).toEqual([3_000]);
});

test("an abort between two attempts ends the run without another", async () => {
  server.willReply({ kind: "cut" }, { kind: "cut" });
  const stage = createRunStage({ time: "stands" });
  const asleep = stage.next("sleep");
  const next = model("openai").run(turnOf(PROMPT), stage.control)[Symbol.asyncIterator]().next();
  await asleep;
  stage.abort();
  await expect(next).rejects.toThrow("aborted by the test");
  expect(server.requests).toHaveLength(1);
});

test("a compatible server without a key gets no Authorization header", async () => {
  const agent = model("openai-compatible", { adapter: { api_key_env: undefined }, env: { OPENAI_API_KEY: KEY } });
  server.willReply({ kind: "stream", text: ["ok"] });
  await play(agent, turnOf(PROMPT));
  expect(server.requests[0]!.headers.authorization).toBeUndefined();
  expect(server.requests[0]!.body).toContain('"include_usage":true');
});

test("token counts are whole and not negative, whatever the server reports", async () => {
  server.willReply({ kind: "stream", text: ["ok"], usage: { input: 10.6, output: -1 } });
  const parts = await play(model("openai-compatible"), turnOf(PROMPT));
  const usage = { prompt_tokens: 11, completion_tokens: 0, total_tokens: 11 };
  expect(parts.at(-1)).toEqual({ type: "usage", usage });
});

test("an agent without its key refuses before it sends a request", async () => {
  const agent = model("openai", { adapter: { api_key_env: undefined }, env: {} });
  const { failure } = await playToFailure(agent, turnOf(PROMPT));
  const message = "This agent has no key for its model's provider.";
  expect(failure).toMatchObject({ code: "provider_refused", message });
  expect(server.requests).toEqual([]);
});
