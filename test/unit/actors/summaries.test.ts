import { expect, test } from "vitest";
import type { Fact } from "../../../src/actors/facts.ts";
import type { ErrorCode } from "../../../src/protocol/errors.ts";
import type { Usage } from "../../../src/protocol/message.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

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

class Stage extends FloorStage {
  #turns = 0;
  /** The pending summary, and its effect. */
  wanted: { runId: string; id: string; dueAt: number } = { runId: "none", id: "none", dueAt: 0 };

  constructor() {
    super(CATALOG);
    this.create("writer");
  }

  /** A complete turn of the session. */
  talk(text = "yes"): Fact[] {
    const name = `m${++this.#turns}`;
    this.chat("writer", name);
    this.claim("writer", `run-${name}`);
    const messageId = `a-${name}`;
    return this.#note(
      this.deliver({
        type: "run.report",
        sessionId: "writer",
        runId: `run-${name}`,
        attempt: 1,
        n: 1,
        parts: [
          { kind: "open", messageId, agent: author },
          { kind: "append", messageId, offset: 0, text },
        ],
        outcome: { kind: "done", summary: "yes" },
      }).facts,
    );
  }

  summarize() {
    const { facts, reply } = this.deliver({ type: "session.summarize", sessionId: "writer" });
    this.#note(facts);
    return reply;
  }

  take(outcome: object, attempt = 1, usage?: Usage): Fact[] {
    const { runId } = this.wanted;
    const parts = usage ? [{ kind: "usage", usage }] : [];
    const report = { type: "run.report", sessionId: "writer", runId, attempt, n: 1, parts, outcome } as never;
    return this.#note(this.deliver(report).facts);
  }

  begin(claimId = "worker") {
    return this.claim("writer", this.wanted.runId, claimId);
  }

  #note(facts: Fact[]): Fact[] {
    for (const fact of facts) {
      if (fact.type !== "effect.add" || fact.effect.kind !== "run" || fact.effect.purpose !== "summary") continue;
      const { runId, id, dueAt } = fact.effect;
      this.wanted = { runId, id, dueAt };
    }
    return facts;
  }

  get context() {
    return this.actors.machineState("writer" as never)!.context;
  }
}

const summaries = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "message.add" && fact.message.summary ? [fact.message] : []));
const isWanted = (facts: readonly Fact[]) =>
  facts.some((fact) => fact.type === "effect.add" && fact.effect.kind === "run" && fact.effect.purpose === "summary");

test("a summary is requested after the configured number of turns, and becomes a message of the session", () => {
  const stage = new Stage();
  expect(isWanted(stage.talk())).toBe(false);
  expect(isWanted(stage.talk())).toBe(true);
  const { runId } = stage.wanted;
  expect(stage.begin()).toMatchObject({
    ok: true,
    task: { purpose: "summary", runId, attempt: 1, agentId: "writer" },
  });
  const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
  const facts = stage.take(written(), 1, usage);
  expect(summaries(facts)).toMatchObject([
    {
      id: runId,
      role: "system",
      content: "Title\n\nWhat was said.",
      status: "success",
      summary: { upTo: "m2" },
      usage,
    },
  ]);
  expect(stage.events("session_updated", facts)).toMatchObject([
    { summary: "Title", summaryId: runId, tokenUsage: { used: 10 } },
  ]);
  expect(facts).toContainEqual({ type: "effect.remove", id: stage.wanted.id });
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
  expect(floor.ask({ type: "session.summarize", sessionId: "plain" })).toMatchObject({
    ok: false,
    code: "illegal_command",
  });
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
  const stage = new Stage();
  stage.summarize();
  stage.begin();
  expect(isWanted(stage.take(written({ hasMore: true })))).toBe(true);
});

test("an outdated summary changes nothing", () => {
  const stage = new Stage();
  stage.summarize();
  stage.begin();
  const facts = stage.take({ kind: "unneeded" });
  expect(facts).toEqual([
    { type: "effect.remove", id: stage.wanted.id },
    { type: "event", event: expect.objectContaining({ type: "session_updated" }) },
  ]);
  expect(stage.context).toMatchObject({ messageCount: 0, summarizing: undefined });
});

test("a late attempt at a summary changes nothing once another attempt has begun", () => {
  const stage = new Stage();
  stage.summarize();
  stage.begin("one");
  expect(stage.claim("writer", stage.wanted.runId, "two", false)).toMatchObject({ isClaimed: true });
  expect(stage.begin("two")).toMatchObject({ task: { attempt: 2 } });
  expect(summaries(stage.take(written(), 1))).toEqual([]);
  const still = (attempt: number) =>
    stage.ask({ type: "run.still", sessionId: "writer", runId: stage.wanted.runId, attempt });
  expect([still(1), still(2)]).toMatchObject([{ standing: { standing: "stop" } }, { standing: { standing: "go" } }]);
  expect(summaries(stage.take(written(), 2))).toHaveLength(1);
  expect(summaries(stage.take(written(), 2))).toEqual([]);
});

test.each(["archive", "delete"] as const)(
  "a report of a late attempt is ignored after %s, and its answer stops the attempt",
  (verb) => {
    const stage = new Stage();
    stage.summarize();
    stage.begin();
    stage.on("writer", verb);
    expect(stage.facts).toContainEqual({ type: "effect.remove", id: stage.wanted.id });
    expect(stage.facts).toContainEqual({
      type: "signal",
      runId: stage.wanted.runId,
      signal: { signal: "stop", attempt: 1 },
    });
    expect(summaries(stage.take(written()))).toEqual([]);
    expect(stage.state("writer")).toBe(verb === "archive" ? "archived" : "deleted");
  },
);

test("a late attempt is recognised after a restart of the floor", () => {
  const stage = new Stage();
  stage.talk();
  stage.summarize();
  stage.begin();
  stage.restart();
  expect(summaries(stage.take(written()))).toHaveLength(1);
});

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
  const because = failed("provider_unreachable");
  const failuresIn = (facts: Fact[]) =>
    stage.events("session_updated", facts).map(({ summaryFailure }) => summaryFailure);
  const failure = { errorCode: "provider_unreachable", message: "No answer." };
  stage.begin();
  expect(failuresIn(stage.take(because))).toEqual([{ ...failure, retryAt: stage.now + 30_000 }]);
  stage.begin();
  expect(failuresIn(stage.take(because, 2))).toEqual([{ ...failure, retryAt: stage.now + 60_000 }]);
  stage.begin();
  expect(failuresIn(stage.take(because, 3))).toEqual([failure]);
  stage.summarize();
  stage.begin();
  expect(failuresIn(stage.take({ kind: "unneeded" }))).toEqual([
    { message: "There are no messages since the last summary." },
  ]);
});

test("a summary whose workers were all lost is reported as failed", () => {
  const stage = new Stage();
  stage.summarize();
  const { runId } = stage.wanted;
  for (const claimId of ["one", "two", "three"]) stage.begin(claimId);
  const claim = { type: "run.claim", sessionId: "writer", runId, claimId: "four", hasNoDriver: true } as never;
  const { facts } = stage.deliver(claim);
  expect(stage.events("session_updated", facts)).toMatchObject([{ summaryFailure: { errorCode: "run_lost" } }]);
});

test("a failed summary waits as long as the provider requests, up to an hour", () => {
  const stage = new Stage();
  stage.summarize();
  stage.begin();
  stage.take(failed("provider_rate_limited", 90_000));
  expect(stage.wanted.dueAt - stage.now).toBe(90_000);
  stage.begin();
  stage.take(failed("provider_rate_limited", 9e9), 2);
  expect(stage.wanted.dueAt - stage.now).toBe(3_600_000);
});

test.each(["provider_refused", "agent_not_found"] as const)(
  "a summary that failed with %s is not retried, and its tokens are counted",
  (code) => {
    const stage = new Stage();
    stage.summarize();
    stage.begin();
    const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
    expect(isWanted(stage.take(failed(code), 1, usage))).toBe(false);
    expect(stage.context.tokenUsage.used).toBe(10);
  },
);

test("a summary whose worker shuts down is retried at once by another worker, at most three times", () => {
  const stage = new Stage();
  stage.summarize();
  stage.begin();
  expect(isWanted(stage.take({ kind: "lost", yielded: false }))).toBe(true);
  expect(stage.wanted.dueAt).toBe(stage.now);
  stage.begin("two");
  stage.begin("three");
  expect(stage.begin("four")).not.toHaveProperty("task");
  expect(stage.context.summarizing).toBeUndefined();
});
