import { describe, expect, test } from "vitest";
import type { Fact } from "../../../src/actors/facts.ts";
import { masterRef } from "../../../src/protocol/message.ts";
import { closed, playing, requestedRuns, scripted, withdrawn } from "../../support/floors/playing-floor.ts";

const signals = (facts: readonly Fact[]) =>
  facts.flatMap((fact) =>
    fact.type === "signal" && "attempt" in fact.signal ? [`${fact.signal.signal} ${fact.signal.attempt}`] : [],
  );

test("a pause holds the run of an agent that supports it, and the resume lets it continue", () => {
  const floor = playing();
  const { facts } = floor.deliver({
    type: "session.create",
    sessionId: "phone",
    session: { sessionId: "phone", agentId: "phone", userId: "ann" },
    activate: true,
  });
  expect(signals(facts)).toEqual(["hold 1"]);
  const resumed = floor.deliver({ type: "session.archive", sessionId: "phone" }).facts;
  expect(signals(resumed)).toEqual(["go 1"]);
  expect(requestedRuns(resumed)).toMatchObject([{ dueAt: floor.now + 2_000 }]);
  expect(floor.state("music")).toBe("active.running");
  const nudge = requestedRuns(resumed)[0]!.id;
  const next = floor.deliver({
    type: "run.report",
    sessionId: "music",
    runId: "run-m1",
    attempt: 1,
    n: 2,
    parts: [{ kind: "append", messageId: "a1", offset: 5, text: "!" }],
  });
  expect(withdrawn(next.facts)).toEqual([nudge]);
});

test("a pause cancels the run of an agent that cannot hold; the run starts again after the old attempt has stopped", () => {
  const floor = playing({ adapter: scripted({ yields: "abort" }) });
  const paused = floor.deliver({ type: "session.pause", sessionId: "music" }).facts;
  expect(signals(paused)).toEqual(["stop 1"]);
  expect(closed(paused)).toEqual(["a1 interrupted"]);
  expect(floor.events("complete")).toEqual([]);
  const resumed = floor.deliver({ type: "session.resume", sessionId: "music" }).facts;
  expect(requestedRuns(resumed)).toEqual([]);
  const stopped = floor.deliver({
    type: "run.report",
    sessionId: "music",
    runId: "run-m1",
    attempt: 1,
    n: 2,
    parts: [],
    outcome: { kind: "stopped" },
  }).facts;
  expect(requestedRuns(stopped)).toHaveLength(1);
  expect(floor.claim("music", "run-m1", "next")).toMatchObject({ task: { attempt: 2 } });
});

test("a pause of a run without a worker drops the claim, and the resume requests another worker", () => {
  const floor = playing();
  floor.on("music", "pause");
  expect(floor.claim("music", "run-m1", "other")).not.toHaveProperty("task");
  const { facts } = floor.deliver({ type: "session.resume", sessionId: "music" });
  expect(requestedRuns(facts)).toMatchObject([{ dueAt: floor.now }]);
});

test("an abort ends the run and keeps its text, and is not an error without a run", () => {
  const floor = playing();
  const { facts } = floor.deliver({ type: "session.abort", sessionId: "music" });
  expect(facts.filter((fact) => fact.type === "event").map((fact) => fact.event.type)).toEqual([
    "complete",
    "session_transition",
  ]);
  expect(closed(facts)).toEqual(["a1 interrupted"]);
  expect(floor.state("music")).toBe("active.idle");
  expect(floor.on("music", "abort")).toMatchObject({ ok: true });
});

test("an abort of a paused session ends the held run and leaves it paused", () => {
  const floor = playing();
  floor.on("music", "pause");
  floor.on("music", "abort");
  expect(floor.state("music")).toBe("paused");
  expect(floor.actors.machineState("music" as never)?.value.activity).toBe("idle");
});

test("an abort frees the session for the next run after ten seconds, even if the worker never confirms the stop", () => {
  const floor = playing();
  floor.on("music", "abort");
  floor.chat("music", "m2");
  expect(requestedRuns(floor.facts)).toHaveLength(1);
  floor.pass(10_000);
  expect(requestedRuns(floor.facts)).toHaveLength(2);
});

describe("a call without a result", () => {
  const call = (toolCallId: string) => ({ toolCallId, function: { name: "open_trunk", arguments: "{}" } });
  const agent = masterRef("music");
  const confirmation = { kind: "confirmation" as const, requestId: "q1", toolCall: call("waits"), isSensitive: true };
  const failed = { kind: "failed", code: "internal", message: "It broke." } as const;
  type Playing = ReturnType<typeof playing>;

  test.each<[string, (floor: Playing) => unknown]>([
    ["an abort", (floor) => floor.on("music", "abort")],
    ["a pause", (floor) => floor.on("music", "pause")],
    ["its session's end", (floor) => floor.on("music", "archive")],
    ["a failure", (floor) => floor.report("music", "run-m1", 3, { outcome: failed })],
    [
      "the loss of its worker",
      (floor) => floor.report("music", "run-m1", 3, { outcome: { kind: "lost", yielded: false } }),
    ],
    ["a confirmation that nobody gives", (floor) => floor.pass(300_000)],
  ])("gets one from %s, which says whether it began", (_, end) => {
    const floor = playing({ adapter: scripted({ yields: "abort" }) });
    const parts = ["ends", "runs", "waits"].map((id) => ({ kind: "tool_call" as const, call: call(id), agent }));
    const result = { toolCallId: "ends", toolName: "open_trunk", content: "open", status: "success" as const, agent };
    floor.report("music", "run-m1", 2, {
      parts: [...parts, { kind: "tool_result", ...result }, { kind: "ask", interaction: confirmation }],
    });
    end(floor);
    const ended = { toolName: "open_trunk", status: "error", agent };
    expect(floor.events("tool_result")).toEqual([
      result,
      { ...ended, toolCallId: "waits", content: "The call did not begin: the turn ended before it was confirmed." },
      {
        ...ended,
        toolCallId: "runs",
        content: "The turn ended before the call did. What the call has done is not known.",
      },
    ]);
    // Once: another end of the same attempt adds nothing.
    floor.on("music", "abort");
    expect(floor.events("tool_result")).toHaveLength(3);
  });
});

const question = { kind: "question" as const, requestId: "q1", question: "Which?", options: ["a", "b"] };
const asking = () => {
  const floor = playing();
  floor.report("music", "run-m1", 2, { parts: [{ kind: "ask", interaction: question }] });
  return floor;
};

test("an interaction makes the session wait, and its answer reaches the worker", () => {
  const floor = asking();
  expect(floor.state("music")).toBe("active.waiting");
  const answer = { kind: "question" as const, requestId: "q1", selected: ["a"] };
  const { facts, reply } = floor.deliver({ type: "session.answer", sessionId: "music", requestId: "q1", answer });
  expect(reply.ok).toBe(true);
  expect(signals(facts)).toEqual(["answer 1"]);
  expect(floor.state("music")).toBe("active.running");
  expect(floor.ask({ type: "session.answer", sessionId: "music", requestId: "q1", answer })).toMatchObject({
    code: "interaction_not_found",
  });
  expect(floor.ask({ type: "run.still", sessionId: "music", runId: "run-m1", attempt: 1 })).toMatchObject({
    standing: { standing: "go", answers: [answer] },
  });
});

test("an interaction that its agent withdraws ends, the run continues, and a late answer is refused", () => {
  const floor = asking();
  floor.report("music", "run-m1", 3, { parts: [{ kind: "ask", interaction: { ...question, requestId: "q2" } }] });
  floor.report("music", "run-m1", 4, { withdrawn: ["q1"] });
  expect(floor.state("music")).toBe("active.waiting");
  const { interactions } = floor.actors.machineState("music" as never)!.context.run!;
  expect(interactions.map(({ interaction }) => interaction.requestId)).toEqual(["q2"]);
  floor.report("music", "run-m1", 5, { withdrawn: ["q2"] });
  expect(floor.events("interaction_resolved")).toEqual([{ by: "agent" }, { by: "agent" }]);
  expect(floor.state("music")).toBe("active.running");
  const answer = { kind: "question" as const, requestId: "q1", selected: ["a"] };
  expect(floor.ask({ type: "session.answer", sessionId: "music", requestId: "q1", answer })).toMatchObject({
    code: "interaction_not_found",
  });
  // Withdrawn again, or after the answer.
  floor.report("music", "run-m1", 6, { withdrawn: ["q1"] });
  expect(floor.events("interaction_resolved")).toHaveLength(2);
  expect(floor.state("music")).toBe("active.running");
});

test("an interaction that times out fails the run with interaction_timeout and complete", () => {
  const floor = asking();
  floor.pass(300_000);
  expect(floor.events("interaction_resolved")).toEqual([{ by: "timeout" }]);
  expect(floor.events("error")).toMatchObject([{ errorCode: "interaction_timeout" }]);
  expect(floor.events("complete")).toHaveLength(1);
  expect(floor.state("music")).toBe("active.failed");
});

test("a tool that is approved for always needs no confirmation for the rest of the session", () => {
  const floor = playing();
  const toolCall = { toolCallId: "t1", function: { name: "open_trunk", arguments: "{}" } };
  const interaction = { kind: "confirmation" as const, requestId: "q1", toolCall, isSensitive: true };
  floor.report("music", "run-m1", 2, { parts: [{ kind: "ask", interaction }] });
  const answer = { kind: "confirmation" as const, requestId: "q1", verdict: "approve_always" as const };
  floor.ask({ type: "session.answer", sessionId: "music", requestId: "q1", answer });
  floor.report("music", "run-m1", 3, { outcome: { kind: "done" } });
  floor.chat("music", "m2");
  expect(floor.claim("music", "run-m2")).toMatchObject({ task: { approvedTools: ["open_trunk"] } });
});

test("an approval for always is kept under the name that the agent's adapter gives it", () => {
  const floor = playing();
  const toolCall = { toolCallId: "t1", function: { name: "open_trunk", arguments: "{}" } };
  const approves = "acp:coder/open_trunk";
  const interaction = { kind: "confirmation" as const, requestId: "q1", toolCall, isSensitive: true, approves };
  floor.report("music", "run-m1", 2, { parts: [{ kind: "ask", interaction }] });
  const answer = { kind: "confirmation" as const, requestId: "q1", verdict: "approve_always" as const };
  floor.ask({ type: "session.answer", sessionId: "music", requestId: "q1", answer });
  floor.report("music", "run-m1", 3, { outcome: { kind: "done" } });
  floor.chat("music", "m2");
  expect(floor.claim("music", "run-m2")).toMatchObject({ task: { approvedTools: [approves] } });
});

test("an interaction ends with an abort", () => {
  const floor = asking();
  floor.on("music", "abort");
  expect(floor.events("interaction_resolved")).toEqual([{ by: "abort" }]);
});

test("an interaction ends when another worker claims the run, and the transition says that the turn began again", () => {
  const floor = asking();
  const { facts } = floor.deliver({
    type: "run.claim",
    sessionId: "music",
    runId: "run-m1",
    claimId: "c2",
    hasNoDriver: true,
  });
  expect(floor.events("interaction_resolved", facts)).toEqual([{ by: "abort" }]);
  const again = { from: "active.waiting", to: "active.running", event: "turn" };
  expect(floor.events("session_transition", facts)).toMatchObject([again]);
});

test("an interaction ends when its worker gives the run back, and the transition says that the turn begins again", () => {
  const floor = asking();
  const outcome = { kind: "lost" as const, yielded: false };
  const report = { type: "run.report" as const, sessionId: "music", runId: "run-m1", attempt: 1, n: 3 };
  const { facts } = floor.deliver({ ...report, parts: [], outcome });
  const again = { from: "active.waiting", to: "active.running", event: "turn" };
  expect(floor.events("session_transition", facts)).toMatchObject([again]);
});
