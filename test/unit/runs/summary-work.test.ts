import { expect, test, vi } from "vitest";
import type { AgentId, MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { SummaryTask } from "../../../src/protocol/internal/run.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { readSummaryWork } from "../../../src/runs/summary-reader.ts";
import type { Tracer } from "../../../src/shared/ports/tracer.ts";
import { drive } from "../../support/agents/driver-stage.ts";
import { finish, Puppet } from "../../support/agents/puppet.ts";
import { messageOf } from "../../support/agents/run-stage.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { WorkerStage } from "../../support/nodes/worker-stage.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";

const SWEEP_MS = 10_000;

const SESSION = "s" as SessionId;
const task = (more: Partial<SummaryTask> = {}): SummaryTask => ({
  purpose: "summary",
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
  const store = new MemoryStore();
  const floor = new FloorWriter(store);
  const writes = messages.map((each) => ({ kind: "add" as const, message: each }));
  expect(await floor.write({ sessions: [floor.session(SESSION)], messages: writes })).toBe("committed");
  return store;
}

async function read(messages: Message[], more: Partial<SummaryTask> = {}) {
  const work = await readSummaryWork(await storeWith(messages), SESSION, task(more));
  return work && { texts: work.request.messages.map(({ content }) => content), ...work };
}

test("a summary covers the messages that a model receives, up to the newest finished one", async () => {
  const failed = message("assistant", "failed", { status: "error" });
  const work = await read([message("user", "one"), message("assistant", "two"), message("tool", "t"), failed]);
  expect(work).toMatchObject({ texts: ["one", "two"], upTo: failed.id, hasMore: false });
});

test("a summary ends before a queued message, an unfinished message, and the current turn", async () => {
  const begin = () => [message("user", "one"), message("assistant", "two")];
  const texts = ["one", "two"];
  for (const status of ["queued", "running"] as const) {
    const waiting = message("user", "waits", { status });
    const work = await read([...begin(), waiting, message("assistant", "late")]);
    expect(work).toMatchObject({ texts, hasMore: false });
  }
  const under = message("user", "three");
  const work = await read([...begin(), under, message("assistant", "four")], { before: under.id });
  expect(work).toMatchObject({ texts });
});

test("a summary continues the previous one, and none is written without a new message", async () => {
  const messages = [message("user", "one"), message("assistant", "two")];
  const [, last] = messages;
  const summary = message("system", "In short.", { summary: { upTo: last!.id } });
  const summaryId = summary.id;
  expect(await read([...messages, summary], { summaryId })).toBeUndefined();
  expect(await read([...messages, summary, message("user", "three")], { summaryId })).toMatchObject({
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

test("summaries of turns that waited cover each turn with its reply, and nothing twice", async () => {
  const [u0, u1, u2, a0, a1, a2] = ["u0", "u1", "u2", "a0", "a1", "a2"].map((name) =>
    message(name.startsWith("u") ? "user" : "assistant", name, { runId: name.slice(1) as RunId }),
  ) as [Message, Message, Message, Message, Message, Message];
  const first = await read([u0, u1, u2, a0, a1], { before: u2.id });
  expect(first).toMatchObject({ texts: ["u0", "a0", "u1", "a1"], upTo: a1.id });
  const early = await read([u0, { ...u1, status: "queued" }, { ...u2, status: "queued" }, a0]);
  expect(early).toMatchObject({ texts: ["u0", "a0"], upTo: a0.id });
  for (const [upTo, texts] of [
    [a0, ["u1", "a1", "u2", "a2"]],
    [a1, ["u2", "a2"]],
  ] as const) {
    const summary = message("system", "In short.", { summary: { upTo: upTo.id } });
    const next = await read([u0, u1, u2, a0, a1, summary, a2], { summaryId: summary.id });
    expect(next).toMatchObject({ texts, upTo: a2.id });
  }
});

/** A driver whose agent writes a summary of "one" and "two". */
async function writing() {
  const store = await storeWith([message("user", "one"), message("assistant", "two")]);
  const work = (await readSummaryWork(store, SESSION, task()))!;
  const puppet = new Puppet();
  const stage = await drive(puppet, undefined, undefined, work);
  return { ...stage, work, run: puppet.summaries[0]! };
}

test("a summary's text and tokens are reported at once", async () => {
  const { run, work, clock, floor, deltas } = await writing();
  expect(run.turn.messages.map(({ content }) => content)).toEqual(["one", "two"]);
  const usage = { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 };
  run.say(" # **Two** numbers\n\n", "One and two.\n");
  run.do({ type: "usage", usage }, { type: "usage", usage });
  await clock.advance(4_999);
  expect(floor.asked).toEqual([]);
  await finish({ clock }, run);
  const parts = [{ kind: "usage", usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 } }];
  const text = "# **Two** numbers\n\nOne and two.";
  const outcome = { kind: "written", text, upTo: work.upTo, hasMore: false };
  expect(floor.asked).toMatchObject([{ type: "run.report", n: 1, parts, outcome }]);
  expect(deltas).toEqual([]);
  expect(clock.timerCount).toBe(0);
});

test("an endless summary is cut, and its stream is closed", async () => {
  const { run, clock, lastOutcome } = await writing();
  run.say(...Array.from({ length: 40 }, () => "word ".repeat(100)));
  await clock.advance(0);
  const outcome = lastOutcome();
  expect(outcome).toMatchObject({ kind: "written", text: expect.stringMatching(/^word .*…$/) });
  expect(outcome?.kind === "written" && outcome.text.length).toBe(8_192);
  expect(run.isOver).toBe(true);
});

test("an empty summary is a failure", async () => {
  const { run, clock, lastOutcome } = await writing();
  await finish({ clock }, run, " \n");
  const message = "The model wrote no summary.";
  expect(lastOutcome()).toEqual({ kind: "failed", code: "provider_unreachable", message });
});

test("an agent that is silent for five minutes is abandoned", async () => {
  const { log, clock, lastOutcome } = await writing();
  await clock.advance(299_999);
  expect(lastOutcome()).toBeUndefined();
  await clock.advance(1);
  const message = "The model wrote no summary within five minutes.";
  expect(lastOutcome()).toEqual({ kind: "failed", code: "provider_unreachable", message });
  expect(log.lines).toEqual(["a summary failed; the session stays as it is"]);
});

test("an agent that writes a summary can ask no person", async () => {
  const { run } = await writing();
  await expect(run.control.askUser({ kind: "question", question: "Which?", options: [] })).rejects.toThrow("no person");
});

/** A worker whose agent summarises after each turn. */
async function open() {
  const stage = await WorkerStage.open();
  const adapter = { kind: "ai-sdk", provider: "openai", model: "m", yields: "hold", summary: { after: 1 } };
  stage.floors.catalog = makeCatalog([{ name: "music", adapter }]);
  const puppet = stage.puppet();
  const { summaries } = puppet;
  /** A complete turn of a new session. */
  const talk = async (userId: string) => {
    await stage.create(userId);
    await stage.chat(userId);
    await finish(stage, puppet.last, "la");
  };
  /** Let all agents write their summaries. */
  const write = async () => {
    for (const summary of summaries) await finish(stage, summary, "In short.");
  };
  const summaryOf = async (userId: string) => {
    const page = await stage.floors.store.store.listMessages(userId as SessionId, { limit: 500 });
    return page!.messages.filter(({ summary }) => summary).map(({ content }) => content);
  };
  return { stage, puppet, summaries, talk, write, summaryOf };
}

test("a summary occupies no place of a run, and a run no place of a summary", async () => {
  const { stage, puppet, summaries, talk, write, summaryOf } = await open();
  const worker = await stage.startWorker({ concurrency: 1 });
  await talk("ann");
  expect(summaries).toHaveLength(1);
  await talk("bob");
  expect([puppet.runs.length, summaries.length, worker.counts.underWay]).toEqual([2, 2, 0]);
  await stage.create("eve");
  await stage.chat("eve");
  expect(worker.counts.underWay).toBe(1);
  await write();
  expect([await summaryOf("ann"), await summaryOf("bob")]).toEqual([["In short."], ["In short."]]);
  expect(await stage.runRequests()).toHaveLength(1);
});

test("the span of a summary's run is called summary", async () => {
  const { stage, talk } = await open();
  stage.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const begun: string[] = [];
  const begin: Tracer["begin"] = (_, name, trace = "") => {
    begun.push(name);
    return { trace, end: () => {} };
  };
  await stage.startWorker({ tracer: { begin } });
  await talk("ann");
  expect(begun).toEqual(["run", "summary"]);
});

test("a summary whose floor does not answer its claim occupies no place of a run", async () => {
  const { stage, puppet, talk } = await open();
  await stage.startWorker({ concurrency: 1 });
  const { host } = stage.floors;
  const { dispatch } = host;
  vi.spyOn(host, "dispatch").mockImplementation((envelope) => {
    const { command } = envelope;
    const isUnanswered = command.type === "run.claim" && !command.runId.startsWith("run-");
    return isUnanswered ? new Promise(() => {}) : dispatch(envelope);
  });
  await talk("ann");
  await talk("bob");
  expect(puppet.runs).toHaveLength(2);
});

test("a worker writes four summaries at once; the others follow with the next sweep", async () => {
  const { stage, summaries, talk, write, summaryOf } = await open();
  await stage.startWorker();
  const users = ["a", "b", "c", "d", "e"];
  for (const user of users) await talk(user);
  expect(summaries).toHaveLength(4);
  await write();
  await stage.clock.advance(2 * SWEEP_MS);
  expect(summaries).toHaveLength(5);
  expect(await summaryOf("d")).toEqual(["In short."]);
});

test("archiving a session stops its summary at once", async () => {
  const { stage, summaries, talk, summaryOf } = await open();
  await stage.startWorker();
  await talk("ann");
  await stage.on("ann", "archive");
  expect(summaries[0]!.isOver).toBe(true);
  expect([await summaryOf("ann"), await stage.runRequests()]).toEqual([[], []]);
});

test("a stopping worker gives its summaries back at once, also one that it has just claimed", async () => {
  const { stage, puppet, summaries, talk } = await open();
  const first = await stage.startWorker();
  await talk("ann");
  await stage.create("bob");
  await stage.chat("bob");
  let stopped: Promise<void> | undefined;
  const find = stage.agents.get.bind(stage.agents);
  stage.agents.get = (id) => {
    first.isOffered = false;
    stopped ??= first.worker.stop({ graceMs: 60_000, giveBackMs: 1_000 });
    return find(id);
  };
  await finish(stage, puppet.last);
  const aborted = () => summaries.map(({ control }) => control.signal.aborted);
  expect(summaries.map(({ pulls }) => pulls)).toEqual([1]);
  expect(aborted()).toEqual([true]);
  await stage.startWorker();
  await stage.clock.advance(2 * SWEEP_MS);
  expect(aborted()).toEqual([true, false, false]);
  await stage.clock.advance(61_000);
  await stopped;
});

test("an agent that is missing, or writes no summaries, fails a summary", async () => {
  const { stage, puppet, talk } = await open();
  Object.assign(puppet, { summarize: undefined });
  const worker = await stage.startWorker();
  await talk("ann");
  expect(worker.ended).toEqual(["music done", "music failed: agent_not_found"]);
  expect(await stage.runRequests()).toEqual([]);
});

test("a summary without new messages ends as unneeded", async () => {
  const { stage, talk, write, summaryOf } = await open();
  const worker = await stage.startWorker();
  await talk("ann");
  await write();
  await stage.floors.ask({ type: "session.summarize", sessionId: "ann" }, { floorId: "u:ann" });
  await stage.clock.advance(0);
  expect(worker.ended).toEqual(["music done", "music written", "music unneeded"]);
  expect(await summaryOf("ann")).toHaveLength(1);
});
