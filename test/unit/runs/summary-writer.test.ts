import { expect, test } from "vitest";
import type { Agent, Part, RunControl, SummaryRequest } from "../../../src/agents/agent.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { SummaryResult, SummaryTask } from "../../../src/protocol/internal/run.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { readSummaryWork } from "../../../src/runs/summary-reader.ts";
import { SummaryWriter } from "../../../src/runs/summary-writer.ts";
import { messageOf } from "../../support/agents/run-stage.ts";
import { ControlledFloor } from "../../support/floors/controlled-floor.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

const SESSION = "s" as SessionId;
const task = (more: Partial<SummaryTask> = {}): SummaryTask => ({
  runId: "job" as RunId,
  attempt: 1,
  agentId: "model" as AgentId,
  ...more,
});

let count = 0;
const message = (role: Message["role"], content: string, more: Partial<Message> = {}): Message => ({
  ...messageOf(role, content),
  id: `m${++count}` as MessageId,
  sessionId: SESSION,
  ...more,
});

/** A store with one session that has these messages. */
async function storeWith(messages: Message[]) {
  const store = await openTemporaryStore();
  const floor = new FloorWriter(store);
  const writes = messages.map((each) => ({ kind: "add" as const, message: each }));
  expect(await floor.write({ sessions: [floor.session(SESSION)], messages: writes })).toBe("committed");
  return store;
}

async function read(messages: Message[], more: Partial<SummaryTask> = {}) {
  const work = await readSummaryWork(await storeWith(messages), SESSION, task(more));
  return work && { texts: work.request.messages.map(({ content }) => content), ...work };
}

/** A writer whose agent runs `play`. */
async function write(play: (request: SummaryRequest, control: RunControl) => AsyncIterable<Part>) {
  const floor = new ControlledFloor();
  const clock = new VirtualClock();
  const log = new KeptLog();
  const store = await storeWith([message("user", "one"), message("assistant", "two")]);
  const agent = { id: "model", yields: "hold", restartable: false, summarize: play } as unknown as Agent;
  const options = { task: task(), sessionId: SESSION, store, clock, send: floor.ask, log };
  const writer = new SummaryWriter({ agent, ...options });
  const results = () => floor.asked.flatMap((each) => (each.type === "run.summary" ? [each.result] : []));
  return { writer, floor, clock, log, results };
}

async function* say(...texts: string[]): AsyncGenerator<Part> {
  for (const text of texts) yield { type: "text", text };
}

/** Yields nothing until it is aborted. */
const silent = async function* (_: SummaryRequest, { signal }: RunControl): AsyncGenerator<Part> {
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
};

test("a summary covers the messages that a model receives, up to the newest finished one", async () => {
  const failed = message("assistant", "failed", { status: "error" });
  const work = await read([message("user", "one"), message("assistant", "two"), message("tool", "t"), failed]);
  expect(work).toMatchObject({ texts: ["one", "two"], upTo: failed.id, hasMore: false });
});

test("a summary ends before a queued message, an unfinished message, and the current turn", async () => {
  const begin = () => [message("user", "one"), message("assistant", "two")];
  const under = message("user", "three");
  for (const status of ["queued", "running"] as const) {
    const waiting = message("user", "waits", { status });
    expect(await read([...begin(), waiting, message("assistant", "late")])).toMatchObject({
      texts: ["one", "two"],
      hasMore: false,
    });
  }
  expect(await read([...begin(), under, message("assistant", "four")], { before: under.id })).toMatchObject({
    texts: ["one", "two"],
  });
});

test("a summary continues the previous one, and none is written without a new message", async () => {
  const messages = [message("user", "one"), message("assistant", "two")];
  const [, last] = messages;
  const summary = message("system", "In short.", { summary: { upTo: last!.id } });
  const previousId = summary.id;
  expect(await read([...messages, summary], { previousId })).toBeUndefined();
  expect(await read([...messages, summary, message("user", "three")], { previousId })).toMatchObject({
    texts: ["three"],
    request: { previous: "In short." },
  });
});

test("a summary is written from at most a thousand messages and 256 KiB, and says if there are more", async () => {
  const many = Array.from({ length: 1_001 }, (_, index) => message("user", `${index}`));
  expect(await read(many)).toMatchObject({ upTo: many[999]!.id, hasMore: true });
  const large = Array.from({ length: 3 }, () => message("user", "字".repeat(40_000)));
  expect(await read(large)).toMatchObject({ upTo: large[1]!.id, hasMore: true });
  // The agent cuts a message that is too large by itself.
  expect(await read([message("user", "字".repeat(100_000))])).toMatchObject({ hasMore: false });
});

test("a summary's text and tokens are reported once, and its first line is the session's summary", async () => {
  const usage = { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 };
  const { writer, results, clock } = await write(async function* ({ messages }) {
    expect(messages.map(({ content }) => content)).toEqual(["one", "two"]);
    yield* say(" # **Two** numbers\n\n", "One and two.\n");
    yield { type: "usage", usage };
    yield { type: "usage", usage };
  });
  await writer.run();
  expect(results()).toEqual([
    {
      kind: "written",
      text: "# **Two** numbers\n\nOne and two.",
      headline: "Two numbers",
      upTo: expect.any(String),
      hasMore: false,
      usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
    },
  ]);
  expect(clock.timerCount).toBe(0);
});

test("an endless summary is cut, and its stream is closed", async () => {
  let isOver = false;
  const { writer, results } = await write(async function* () {
    try {
      for (;;) yield { type: "text", text: "word ".repeat(100) };
    } finally {
      isOver = true;
    }
  });
  await writer.run();
  expect(results()).toMatchObject([{ kind: "written", text: expect.stringMatching(/^word .*…$/) }]);
  expect((results()[0] as Extract<SummaryResult, { kind: "written" }>).text).toHaveLength(8_192);
  expect(isOver).toBe(true);
});

test.each([
  [
    "an unreachable provider",
    () => new AppError("provider_unreachable", "No answer."),
    { mayRepeat: true, code: "provider_unreachable", message: "No answer." },
  ],
  [
    "a provider that has had enough",
    () => new AppError("provider_rate_limited", undefined, { facts: { retryAfterMs: 9_000 } }),
    { mayRepeat: true, retryAfterMs: 9_000, code: "provider_rate_limited", message: expect.any(String) },
  ],
  [
    "a refusal",
    () => new AppError("provider_refused", "No key."),
    { mayRepeat: false, code: "provider_refused", message: "No key." },
  ],
  [
    "a fault",
    () => new Error("broken"),
    { mayRepeat: true, code: "internal", message: "Something failed on the server." },
  ],
] as const)("%s is reported as a failure, and logged", async (_, error, result) => {
  // biome-ignore lint/correctness/useYield: it fails first.
  const { writer, results, log } = await write(async function* () {
    throw error();
  });
  await writer.run();
  expect(results()).toEqual([{ kind: "failed", ...result }]);
  expect(log.lines).toHaveLength(1);
});

test("an empty summary is a failure", async () => {
  const { writer, results } = await write(() => say(" \n"));
  await writer.run();
  const message = "The model wrote no summary.";
  expect(results()).toEqual([{ kind: "failed", mayRepeat: true, code: "provider_unreachable", message }]);
});

test("an agent that is missing, or writes no summaries, is a failure that is not retried", async () => {
  const { floor, clock, log } = await write(silent);
  const store = await storeWith([]);
  const options = { task: task(), sessionId: SESSION, store, clock, send: floor.ask, log };
  await new SummaryWriter({ agent: undefined, ...options }).run();
  expect(floor.asked).toMatchObject([
    { type: "run.summary", result: { kind: "failed", mayRepeat: false, code: "agent_not_found" } },
  ]);
});

test("an agent that is silent for five minutes is abandoned", async () => {
  const { writer, results, log, clock } = await write(silent);
  const done = writer.run();
  await clock.advance(299_999);
  expect(results()).toEqual([]);
  await clock.advance(1);
  await done;
  const message = "The model wrote no summary within five minutes.";
  expect(results()).toEqual([{ kind: "failed", mayRepeat: true, code: "provider_unreachable", message }]);
  expect(log.lines).toHaveLength(1);
});

test("a floor that no longer wants the summary ends it within five seconds", async () => {
  const { writer, floor, clock } = await write(silent);
  const done = writer.run();
  floor.standing = { standing: "stop", answers: [] };
  await clock.advance(5_000);
  await done;
  expect(floor.stills).toHaveLength(1);
});

test.each(["before", "while"])(
  "a worker that shuts down %s the agent is asked gives the summary back",
  async (when) => {
    const asked = Promise.withResolvers<void>();
    const { writer, results } = await write((request, control) => {
      asked.resolve();
      return silent(request, control);
    });
    const done = writer.run();
    if (when === "while") await asked.promise;
    writer.giveBack();
    await done;
    expect(results()).toEqual([{ kind: "lost" }]);
  },
);

test("the result is reported repeatedly while the floor is away, and then left to another worker", async () => {
  const { writer, floor, clock, results, log } = await write(() => say("Words."));
  floor.fates.push(...Array.from({ length: 5 }, () => new AppError("unavailable")));
  let isDone = false;
  const done = writer.run().then(() => {
    isDone = true;
  });
  while (!isDone) await clock.advance(100);
  await done;
  expect(results()).toHaveLength(5);
  expect(log.lines).toEqual(["a summary could not be reported"]);
});
