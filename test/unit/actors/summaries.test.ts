import { expect, test } from "vitest";
import type { Fact } from "../../../src/actors/facts.ts";
import type { ErrorCode } from "../../../src/protocol/errors.ts";
import type { Usage } from "../../../src/protocol/message.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";
import { requestedRuns } from "../../support/floors/playing-floor.ts";

const model = (summary?: object) => ({ kind: "ai-sdk", provider: "openai", model: "m", ...(summary && { summary }) });
const CATALOG = makeCatalog([
  { name: "writer", when_busy: "enqueue", adapter: model({ after: 2 }) },
  { name: "plain", adapter: model() },
]);

const author = { kind: "master" as const, name: "writer", depth: 0, path: ["writer"] };
const TEXT = "Title\n\nWhat was said.";
const written = ({ hasMore = false } = {}) => ({ kind: "written" as const, text: TEXT, upTo: "m2", hasMore });
const failed = (code: ErrorCode = "internal", retryAfterMs?: number) => ({
  kind: "failed" as const,
  code,
  message: "No answer.",
  ...(retryAfterMs !== undefined && { retryAfterMs }),
});

const USAGE = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };

class Stage extends FloorStage {
  #turns = 0;

  constructor() {
    super(CATALOG);
    this.create("writer");
  }

  /** The pending summary, and its run request. */
  get wanted(): { runId: string; id: string; dueAt: number } {
    return requestedIn(this.facts).at(-1) ?? { runId: "none", id: "none", dueAt: 0 };
  }

  /** A complete turn of the session. */
  talk(text = "yes"): Fact[] {
    const name = `m${++this.#turns}`;
    this.chat("writer", name);
    this.claim("writer", `run-${name}`);
    const messageId = `a-${name}`;
    const parts = [
      { kind: "open" as const, messageId, agent: author },
      { kind: "append" as const, messageId, offset: 0, text },
    ];
    const outcome = { kind: "done", summary: "yes" } as const;
    return this.factsOf(() => this.report("writer", `run-${name}`, 1, { parts, outcome }));
  }

  summarize() {
    return this.ask({ type: "session.summarize", sessionId: "writer" });
  }

  /** A pending summary, with a worker that has begun it. */
  static begun(): Stage {
    const stage = new Stage();
    stage.summarize();
    stage.begin();
    return stage;
  }

  take(outcome: object, attempt = 1, usage?: Usage): Fact[] {
    const parts = usage ? [{ kind: "usage" as const, usage }] : [];
    const rest = { attempt, parts, outcome } as never;
    return this.factsOf(() => this.report("writer", this.wanted.runId, 1, rest));
  }

  begin(claimId = "worker") {
    return this.claim("writer", this.wanted.runId, claimId);
  }

  get context() {
    return this.contextOf("writer");
  }
}

const requestedIn = (facts: readonly Fact[]) => requestedRuns(facts).filter(({ purpose }) => purpose === "summary");
const isWanted = (facts: readonly Fact[]) => requestedIn(facts).length > 0;
const summaries = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "message.add" && fact.message.summary ? [fact.message] : []));

test("a summary is requested after the configured number of turns, and becomes a message of the session", () => {
  const stage = new Stage();
  expect(isWanted(stage.talk())).toBe(false);
  expect(isWanted(stage.talk())).toBe(true);
  const { runId } = stage.wanted;
  const task = { purpose: "summary", runId, attempt: 1, agentId: "writer" };
  expect(stage.begin()).toMatchObject({ ok: true, task });
  const facts = stage.take(written(), 1, USAGE);
  const message = { id: runId, role: "system", content: TEXT, status: "success" };
  expect(summaries(facts)).toMatchObject([{ ...message, summary: { upTo: "m2" }, usage: USAGE }]);
  expect(stage.events("session_updated", facts)).toMatchObject([
    { summary: "Title", summaryId: runId, tokenUsage: { used: 10 } },
  ]);
  expect(facts).toContainEqual({ type: "run_request.remove", id: stage.wanted.id });
  expect(stage.context).toMatchObject({ messageCount: 5, summary: "Title", summaryId: runId });
  // The next reply does not change the title.
  stage.talk();
  expect(stage.context.summary).toBe("Title");
});

test("a summary continues the previous one, restarts the count, and ends before the current turn", () => {
  const stage = new Stage();
  stage.talk();
  stage.talk();
  stage.begin();
  const first = stage.wanted.runId;
  stage.take(written());
  expect(isWanted(stage.talk())).toBe(false);
  expect(isWanted(stage.talk())).toBe(true);
  stage.chat("writer", "m5");
  expect(stage.begin()).toMatchObject({ task: { purpose: "summary", summaryId: first, before: "m5" } });
  expect(stage.claim("writer", "run-m5")).toMatchObject({ task: { messageId: "m5", summaryId: first } });
});

test("a long text causes a summary before the configured number of turns", () => {
  const stage = new Stage();
  expect(isWanted(stage.talk("a".repeat(65_536)))).toBe(true);
});

test("an agent without summaries requests none, and a request for one is refused", () => {
  const floor = new FloorStage(CATALOG);
  floor.create("plain");
  const reply = floor.ask({ type: "session.summarize", sessionId: "plain" });
  expect(reply).toMatchObject({ ok: false, code: "illegal_command" });
});

test("repeated requests cause one summary", () => {
  const stage = new Stage();
  stage.talk();
  expect(stage.summarize()).toMatchObject({ ok: true });
  const { runId } = stage.wanted;
  stage.begin();
  expect(stage.summarize()).toMatchObject({ ok: true });
  expect(stage.wanted.runId).toBe(runId);
  expect(summaries(stage.take(written()))).toHaveLength(1);
});

test("a summary is begun in a paused session, and while an attempt at a turn is being stopped", () => {
  const stage = new Stage();
  stage.summarize();
  stage.chat("writer", "m1");
  stage.claim("writer", "run-m1");
  stage.on("writer", "abort");
  expect(stage.context.stopping).toBeDefined();
  expect(stage.begin("one")).toMatchObject({ task: { purpose: "summary", attempt: 1 } });
  stage.on("writer", "pause");
  expect(stage.begin("one")).toMatchObject({ task: { attempt: 1 } });
  expect(stage.begin("two")).toMatchObject({ task: { attempt: 2 } });
});

test("a summary is continued at once if there are more messages than one request holds", () => {
  const stage = Stage.begun();
  expect(isWanted(stage.take(written({ hasMore: true })))).toBe(true);
});

test("an outdated summary changes nothing", () => {
  const stage = Stage.begun();
  const facts = stage.take({ kind: "unneeded" });
  expect(facts).toEqual([
    { type: "run_request.remove", id: stage.wanted.id },
    { type: "event", event: expect.objectContaining({ type: "session_updated" }) },
  ]);
  expect(stage.context).toMatchObject({ messageCount: 0, summarizing: undefined });
});

test("a late attempt at a summary changes nothing once another attempt has begun, also after a restart", () => {
  const stage = new Stage();
  stage.summarize();
  stage.begin("one");
  expect(stage.claim("writer", stage.wanted.runId, "two", false)).toMatchObject({ isClaimed: true });
  expect(stage.begin("two")).toMatchObject({ task: { attempt: 2 } });
  stage.restart();
  expect(summaries(stage.take(written(), 1))).toEqual([]);
  const still = (attempt: number) =>
    stage.ask({ type: "run.still", sessionId: "writer", runId: stage.wanted.runId, attempt });
  expect([still(1), still(2)]).toMatchObject([{ directive: { verdict: "stop" } }, { directive: { verdict: "go" } }]);
  expect(summaries(stage.take(written(), 2))).toHaveLength(1);
  expect(summaries(stage.take(written(), 2))).toEqual([]);
});

test.each(["archive", "delete"] as const)(
  "a report of a late attempt is ignored after %s, and its answer stops the attempt",
  (verb) => {
    const stage = Stage.begun();
    stage.on("writer", verb);
    const { id, runId } = stage.wanted;
    expect(stage.facts).toContainEqual({ type: "run_request.remove", id });
    expect(stage.facts).toContainEqual({ type: "signal", runId, signal: { signal: "stop", attempt: 1 } });
    expect(summaries(stage.take(written()))).toEqual([]);
    expect(stage.state("writer")).toBe(verb === "archive" ? "archived" : "deleted");
  },
);

test("a failed summary is retried with growing pauses, three times in all, and then after as many new messages", () => {
  const stage = new Stage();
  stage.talk();
  stage.talk();
  const pauses: number[] = [];
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    stage.begin();
    stage.take(failed(), attempt);
    pauses.push(stage.wanted.dueAt - stage.now);
  }
  expect(pauses).toEqual([30_000, 60_000]);
  stage.begin();
  expect(isWanted(stage.take(failed(), 3))).toBe(false);
  expect(stage.context).toMatchObject({ summarizing: undefined, messageCount: 4, summary: "yes" });
  expect(isWanted(stage.talk())).toBe(false);
  expect(isWanted(stage.talk())).toBe(true);
});

test("each failed attempt at a summary logs the reason and the time of the next attempt, if there is one", () => {
  const stage = new Stage();
  stage.talk();
  stage.summarize();
  const failuresAfter = (outcome: object, attempt?: number) => {
    stage.begin();
    const updates = stage.events("session_updated", stage.take(outcome, attempt));
    return updates.map(({ summaryFailure }) => summaryFailure);
  };
  const failure = { errorCode: "provider_unreachable", message: "No answer." };
  for (const [attempt, retry] of [{ retryAt: stage.now + 30_000 }, { retryAt: stage.now + 60_000 }, {}].entries()) {
    expect(failuresAfter(failed("provider_unreachable"), attempt + 1)).toEqual([{ ...failure, ...retry }]);
  }
  stage.summarize();
  const unneeded = { message: "There are no messages since the last summary." };
  expect(failuresAfter({ kind: "unneeded" })).toEqual([unneeded]);
});

test("a failed summary waits as long as the provider requests, up to an hour", () => {
  const stage = Stage.begun();
  stage.take(failed("provider_rate_limited", 90_000));
  expect(stage.wanted.dueAt - stage.now).toBe(90_000);
  stage.begin();
  stage.take(failed("provider_rate_limited", 9e9), 2);
  expect(stage.wanted.dueAt - stage.now).toBe(3_600_000);
});

test.each(["provider_refused", "agent_not_found"] as const)(
  "a summary that failed with %s is not retried, and its tokens are counted",
  (code) => {
    const stage = Stage.begun();
    expect(isWanted(stage.take(failed(code), 1, USAGE))).toBe(false);
    expect(stage.context.tokenUsage.used).toBe(10);
  },
);

test("a summary whose worker shuts down is retried at once by another worker, at most three times, and then failed", () => {
  const stage = Stage.begun();
  expect(isWanted(stage.take({ kind: "lost", yielded: false }))).toBe(true);
  expect(stage.wanted.dueAt).toBe(stage.now);
  stage.begin("two");
  stage.begin("three");
  const facts = stage.factsOf(() => expect(stage.begin("four")).not.toHaveProperty("task"));
  expect(stage.events("session_updated", facts)).toMatchObject([{ summaryFailure: { errorCode: "run_lost" } }]);
  expect(stage.context.summarizing).toBeUndefined();
});
