import { expect, test } from "vitest";
import type { Fact } from "../../../src/actors/facts.ts";
import { masterRef } from "../../../src/protocol/message.ts";
import type { FloorStage } from "../../support/floors/floor-stage.ts";
import { closed, DONE, LOST, playing, requestedRuns, scripted, withdrawn } from "../../support/floors/playing-floor.ts";

const signals = (facts: readonly Fact[]) =>
  facts.flatMap((fact) =>
    fact.type === "signal" && "attempt" in fact.signal ? [`${fact.signal.signal} ${fact.signal.attempt}`] : [],
  );

test("a pause holds the run of an agent that supports it, and the resume lets it continue", () => {
  const floor = playing();
  expect(signals(floor.factsOf(() => floor.create("phone")))).toEqual(["hold 1"]);
  const resumed = floor.factsOf(() => floor.on("phone", "archive"));
  expect(signals(resumed)).toEqual(["go 1"]);
  const [nudge, ...others] = requestedRuns(resumed);
  expect([nudge!.dueAt, others]).toEqual([floor.now + 2_000, []]);
  expect(floor.state("music")).toBe("active.running");
  const parts = [{ kind: "append" as const, messageId: "a1", offset: 5, text: "!" }];
  const next = floor.factsOf(() => floor.report("music", "run-m1", 2, { parts }));
  expect(withdrawn(next)).toEqual([nudge!.id]);
});

test("a pause cancels the run of an agent that cannot hold; the run starts again after the old attempt has stopped", () => {
  const floor = playing({ adapter: scripted({ yields: "abort" }) });
  const paused = floor.factsOf(() => floor.on("music", "pause"));
  expect(signals(paused)).toEqual(["stop 1"]);
  expect(closed(paused)).toEqual(["a1 interrupted"]);
  expect(floor.events("complete")).toEqual([]);
  expect(requestedRuns(floor.factsOf(() => floor.on("music", "resume")))).toEqual([]);
  const stopped = floor.factsOf(() => floor.report("music", "run-m1", 2, { outcome: { kind: "stopped" } }));
  expect(requestedRuns(stopped)).toHaveLength(1);
  expect(floor.claim("music", "run-m1", "next")).toMatchObject({ task: { attempt: 2 } });
});

test("a pause of a run without a worker drops the claim, and the resume requests another worker", () => {
  const floor = playing();
  floor.on("music", "pause");
  expect(floor.claim("music", "run-m1", "other")).not.toHaveProperty("task");
  const facts = floor.factsOf(() => floor.on("music", "resume"));
  expect(requestedRuns(facts)).toMatchObject([{ dueAt: floor.now }]);
});

test("an abort ends the run and keeps its text, and is not an error without a run", () => {
  const floor = playing();
  const facts = floor.factsOf(() => floor.on("music", "abort"));
  const events = facts.flatMap((fact) => (fact.type === "event" ? [fact.event.type] : []));
  expect(events).toEqual(["complete", "session_transition"]);
  expect(closed(facts)).toEqual(["a1 interrupted"]);
  expect(floor.state("music")).toBe("active.idle");
  expect(floor.on("music", "abort")).toMatchObject({ ok: true });
});

test("an abort of a paused session ends the held run and leaves it paused", () => {
  const floor = playing();
  floor.on("music", "pause");
  floor.on("music", "abort");
  expect(floor.view("music")).toMatchObject({ state: "paused", activity: "idle" });
});

test("an abort frees the session for the next run after ten seconds, even if the worker never confirms the stop", () => {
  const floor = playing();
  floor.on("music", "abort");
  floor.chat("music", "m2");
  expect(requestedRuns(floor.facts)).toHaveLength(1);
  floor.pass(10_000);
  expect(requestedRuns(floor.facts)).toHaveLength(2);
});

const trunk = (toolCallId: string) => ({ toolCallId, function: { name: "open_trunk", arguments: "{}" } });
const confirmation = (toolCallId: string) =>
  ({ kind: "confirmation", requestId: "q1", toolCall: trunk(toolCallId), isSensitive: true }) as const;

const agent = masterRef("music");
const failed = { kind: "failed", code: "internal", message: "It broke." } as const;

test.each<[string, (floor: FloorStage) => unknown]>([
  ["an abort", (floor) => floor.on("music", "abort")],
  ["a pause", (floor) => floor.on("music", "pause")],
  ["its session's end", (floor) => floor.on("music", "archive")],
  ["a failure", (floor) => floor.report("music", "run-m1", 3, { outcome: failed })],
  ["the loss of its worker", (floor) => floor.report("music", "run-m1", 3, LOST)],
  ["a confirmation that nobody gives", (floor) => floor.pass(300_000)],
])("a call without a result gets one from %s, which says whether it began", (_, end) => {
  const floor = playing({ adapter: scripted({ yields: "abort" }) });
  const parts = ["ends", "runs", "waits"].map((id) => ({ kind: "tool_call" as const, call: trunk(id), agent }));
  const result = { toolCallId: "ends", toolName: "open_trunk", content: "open", status: "success" as const, agent };
  floor.report("music", "run-m1", 2, {
    parts: [...parts, { kind: "tool_result", ...result }, { kind: "ask", interaction: confirmation("waits") }],
  });
  end(floor);
  const ended = (toolCallId: string, content: string) => ({ ...result, toolCallId, content, status: "error" });
  expect(floor.events("tool_result")).toEqual([
    result,
    ended("waits", "The call did not begin: the turn ended before it was confirmed."),
    ended("runs", "The turn ended before the call did. What the call has done is not known."),
  ]);
  // Once: another end of the same attempt adds nothing.
  floor.on("music", "abort");
  expect(floor.events("tool_result")).toHaveLength(3);
});

const question = { kind: "question" as const, requestId: "q1", question: "Which?", options: ["a", "b"] };
const ask = (floor: FloorStage, n: number, interaction: typeof question | ReturnType<typeof confirmation>) =>
  floor.report("music", "run-m1", n, { parts: [{ kind: "ask", interaction }] });
const asking = () => {
  const floor = playing();
  ask(floor, 2, question);
  return floor;
};
const chosen = { kind: "question" as const, requestId: "q1", selected: ["a"] };
const answer = (floor: FloorStage) =>
  floor.ask({ type: "session.answer", sessionId: "music", requestId: "q1", answer: chosen });

test("an interaction makes the session wait, and its answer reaches the worker", () => {
  const floor = asking();
  expect(floor.state("music")).toBe("active.waiting");
  const facts = floor.factsOf(() => expect(answer(floor).ok).toBe(true));
  expect(signals(facts)).toEqual(["answer 1"]);
  expect(floor.state("music")).toBe("active.running");
  expect(answer(floor)).toMatchObject({ code: "interaction_not_found" });
  expect(floor.ask({ type: "run.still", sessionId: "music", runId: "run-m1", attempt: 1 })).toMatchObject({
    directive: { verdict: "go", answers: [chosen] },
  });
});

test("an interaction that its agent withdraws ends, the run continues, and a late answer is refused", () => {
  const floor = asking();
  ask(floor, 3, { ...question, requestId: "q2" });
  floor.report("music", "run-m1", 4, { withdrawn: ["q1"] });
  expect(floor.state("music")).toBe("active.waiting");
  const { interactions } = floor.contextOf("music").run!;
  expect(interactions.map(({ interaction }) => interaction.requestId)).toEqual(["q2"]);
  floor.report("music", "run-m1", 5, { withdrawn: ["q2"] });
  expect(floor.events("interaction_resolved")).toEqual([{ by: "agent" }, { by: "agent" }]);
  const logged = floor.facts.flatMap((fact) => (fact.type === "event" ? [fact.event] : []));
  const resolved = logged.filter(({ type }) => type === "interaction_resolved");
  expect(resolved.map(({ requestId }) => requestId)).toEqual(["q1", "q2"]);
  expect(floor.events("session_transition").at(-1)).toMatchObject({ event: "answer", to: "active.running" });
  expect(answer(floor)).toMatchObject({ code: "interaction_not_found" });
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

test.each([
  ["spares the tool further confirmations in its session", {}, "open_trunk"],
  ["is kept under the name that the agent's adapter gives it", { approves: "acp:coder/trunk" }, "acp:coder/trunk"],
])("an approval for always %s", (_, named, approved) => {
  const floor = playing();
  ask(floor, 2, { ...confirmation("t1"), ...named });
  const verdict = { kind: "confirmation" as const, requestId: "q1", verdict: "approve_always" as const };
  floor.ask({ type: "session.answer", sessionId: "music", requestId: "q1", answer: verdict });
  floor.report("music", "run-m1", 3, DONE);
  floor.chat("music", "m2");
  expect(floor.claim("music", "run-m2")).toMatchObject({ task: { approvedTools: [approved] } });
});

test.each<[string, (floor: FloorStage) => unknown]>([
  ["another worker claims the run", (floor) => floor.claim("music", "run-m1", "c2")],
  ["its worker gives the run back", (floor) => floor.report("music", "run-m1", 3, LOST)],
])("an interaction ends when %s, and the transition says that the turn begins again", (_, lose) => {
  const floor = asking();
  const facts = floor.factsOf(() => lose(floor));
  expect(floor.events("interaction_resolved", facts)).toEqual([{ by: "abort" }]);
  const again = { from: "active.waiting", to: "active.running", event: "turn" };
  expect(floor.events("session_transition", facts)).toMatchObject([again]);
});
