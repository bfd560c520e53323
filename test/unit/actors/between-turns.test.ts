import { expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { play } from "../../support/floors/floor-script.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";
import { persistWhole } from "../../support/floors/persisted-floor.ts";
import { DONE, playing, REFUSED, withMusic } from "../../support/floors/playing-floor.ts";

test("a holder with nothing running gives the floor up after idle_timeout", () => {
  const floor = playing({ idle_timeout: "10m" });
  expect(floor.due).toBeUndefined();
  floor.report("music", "run-m1", 2, DONE);
  floor.pass(600_000);
  expect(floor.transitions().at(-1)).toBe("music active.idle→paused");
  expect(floor.contextOf("music").pausedBy).toBe("yield");
  expect(floor.actors.context.floor.holder).toBeUndefined();
});

test("a session paused longer than max_pause is archived, and each pause counts anew", () => {
  const floor = playing({ max_pause: "30m" });
  play(floor, "pause music; pass 1700000; resume music; pass 200000");
  expect(floor.state("music")).toBe("active.running");
  play(floor, "pause music; pass 1800000");
  expect(floor.transitions().at(-1)).toBe("music paused→archived");
});

test("after a turn that ends while its session is paused, a transition says that it does not come back by itself", () => {
  const floor = playing({ after_turn: "yield" });
  floor.create("phone");
  floor.report("music", "run-m1", 2, REFUSED);
  expect(floor.view("music")).toMatchObject({ pausedBy: "yield" });
  expect(floor.events("session_transition").slice(-2)).toMatchObject([
    { from: "paused", to: "paused", event: "fail" },
    { from: "paused", to: "paused", event: "yield", reason: "after_turn" },
  ]);
});

const agents = [
  { name: "music", priority: 20, max_pause: "30m", resume_within: "10m" },
  { name: "brief", priority: 20, max_pause: "5m" },
  { name: "phone", priority: 90 },
];
const preempted = () => {
  const floor = new FloorStage(makeCatalog(agents));
  play(floor, "start music; start phone");
  return floor;
};

test("a preempted session that is silent for longer than resume_within is woken by no release, and can be resumed", () => {
  const floor = preempted();
  floor.pass(600_000);
  const given = { from: "paused", to: "paused", event: "yield", reason: "resume_within" };
  expect(floor.events("session_transition").at(-1)).toMatchObject(given);
  floor.on("phone", "archive");
  expect(floor.view("music")).toMatchObject({ state: "paused", pausedBy: "yield" });
  expect(floor.on("music", "resume").ok).toBe(true);
  expect(floor.state("music")).toBe("active.idle");
});

test("the turn of a paused session waits for no longer than queue_timeout, and an earlier one stays", () => {
  const keys = { when_blocked: "queue", when_busy: "enqueue", queue_timeout: "30s" };
  const music = { ...agents[0]!, ...keys, adapter: { kind: "scripted" } };
  const floor = new FloorStage(makeCatalog([music, agents[2]!]));
  floor.create("music");
  floor.chat("music", "m1");
  floor.chat("music", "m2");
  play(floor, "pause music; start phone");
  floor.chat("music", "m3");
  floor.restart();
  floor.pass(30_000);
  expect(floor.events("error")).toMatchObject([{ errorCode: "rejected", runId: "run-m3" }]);
  expect(floor.events("complete")).toMatchObject([{ runId: "run-m3" }]);
  expect(floor.events("arbitration").at(-1)).toMatchObject({ outcome: "rejected", reason: "queue_timeout" });
  const given = { from: "paused", to: "paused", event: "yield", reason: "queue_timeout" };
  expect(floor.events("session_transition").at(-1)).toMatchObject(given);
  expect(floor.view("music")).toMatchObject({ state: "paused", pausedBy: "yield" });
  floor.on("phone", "archive");
  expect(floor.state("music")).toBe("paused");
  floor.on("music", "resume");
  const waiting = floor.actors.machineState("music" as never)!.context.turns;
  expect(waiting).toMatchObject([{ messageId: "m2" }]);
});

test("resume_within counts from the request of a session that its user paused and that has to wait", () => {
  const floor = new FloorStage(makeCatalog([{ ...agents[0]!, when_blocked: "queue" }, agents[2]!]));
  const decisions = play(floor, "start music; start phone; pause music; pass 300000; resume music");
  expect(decisions.at(-1)).toBe("queued lower_priority");
  play(floor, "pass 400000; resume music; pass 199999");
  expect(floor.view("music")).toMatchObject({ pausedBy: "preemption" });
  floor.pass(1);
  expect(floor.view("music")).toMatchObject({ pausedBy: "yield" });
});

test("a command finds done what was due before it, each at its own moment, although no alarm came", () => {
  const floor = preempted();
  floor.now += 2_000_000;
  const facts = floor.factsOf(() => floor.on("phone", "archive"));
  const start = floor.now - 2_000_000;
  const times = facts.flatMap((fact) => (fact.type === "at" ? [fact.now - start] : []));
  expect(times).toEqual([600_000, 1_800_000, 2_000_000]);
  const moves = ["music paused→paused", "music paused→archived", "phone active.idle→archived"];
  expect(floor.transitions(facts)).toEqual(moves);
});

test("a switch of the agent and a new catalogue move a deadline at once, measured from when the state began", () => {
  const floor = preempted();
  floor.pass(200_000);
  const pausedAt = floor.now - 200_000;
  expect(floor.due).toBe(pausedAt + 600_000);
  floor.ask({ type: "session.switch_agent", sessionId: "music", agentId: "brief" });
  expect(floor.due).toBe(pausedAt + 300_000);
  floor.catalog = makeCatalog([agents[0]!, { ...agents[1]!, max_pause: "7m" }, agents[2]!]);
  expect(floor.due).toBe(pausedAt + 420_000);
  floor.catalog = makeCatalog([{ ...agents[0]! }, { name: "phone", priority: 90 }]);
  // Its agent has left, and it keeps the length that it had with it.
  floor.restart();
  expect(floor.due).toBe(pausedAt + 300_000);
});

/** The second report of the turn, with a question. */
const ask = (floor: FloorStage) => {
  const interaction = { kind: "question" as const, requestId: "q1", question: "Which?", options: ["a"] };
  floor.report("music", "run-m1", 2, { parts: [{ kind: "ask", interaction }] });
};

test.each([
  ["its answer_within", "20s", 20_000],
  ["the node's setting, without answer_within", undefined, 300_000],
])("a question of an agent waits for %s", (_, answerWithin, waitMs) => {
  const floor = playing({ answer_within: answerWithin });
  ask(floor);
  expect(floor.events("user_question_request")).toMatchObject([{ expiresAt: floor.now + waitMs }]);
  floor.pass(waitMs);
  expect(floor.events("error")).toMatchObject([{ errorCode: "interaction_timeout" }]);
});

test("with answer_within: { heard } a question waits only while its session is heard", () => {
  const floor = playing({ answer_within: { heard: "20s" } });
  ask(floor);
  expect(floor.events("user_question_request")).toMatchObject([{ audibleMs: 20_000 }]);
  expect(floor.events("user_question_request")[0]).not.toHaveProperty("expiresAt");
  floor.pass(5_000);
  floor.create("phone");
  floor.pass(60_000);
  floor.restart();
  expect(floor.events("error")).toEqual([]);
  floor.on("phone", "archive");
  expect(floor.due).toBe(floor.now + 15_000);
  floor.pass(15_000);
  expect(floor.events("error")).toMatchObject([{ errorCode: "interaction_timeout" }]);
});

test("a turn of an agent that has left asks and ends by the keys with which its session was granted", () => {
  const floor = playing({ answer_within: "20s", after_turn: "yield" });
  floor.catalog = makeCatalog([agents[2]!]);
  floor.restart();
  ask(floor);
  expect(floor.due).toBe(floor.now + 20_000);
  expect(floor.events("user_question_request")).toMatchObject([{ expiresAt: floor.due }]);
  floor.report("music", "run-m1", 3, DONE);
  expect(floor.view("music")).toMatchObject({ state: "paused", pausedBy: "yield" });
});

/** A message that creates its session. */
const chatOnce = (floor: FloorStage, settings: { endsWithTurn?: true } = { endsWithTurn: true }) => {
  const turn = { messageId: "m1", runId: "run-m1", content: "hello" };
  const session = { sessionId: "music", agentId: "music", userId: "ann", ...settings };
  floor.ask({ type: "session.chat", sessionId: "music", turn, session });
};

/** How a turn that waits is taken back. */
const TAKEN_BACK: [string, (floor: FloorStage) => unknown][] = [
  ["is withdrawn", (floor) => floor.ask({ type: "session.withdraw", sessionId: "music", messageId: "m1" })],
  ["is aborted", (floor) => floor.ask({ type: "session.abort", sessionId: "music", runId: "run-m1" })],
];

test.each(TAKEN_BACK)(
  "a session that gives the floor back after its turn does not wait for it once that turn %s",
  (_, end) => {
    const floor = new FloorStage(withMusic({ when_blocked: "queue", after_turn: "yield", queue_timeout: "30s" }));
    floor.create("phone");
    chatOnce(floor, {});
    end(floor);
    expect(floor.view("music")?.queuedAt).toBeUndefined();
    const given = { from: "created", to: "created", event: "yield", reason: "after_turn" };
    expect(floor.events("session_transition").at(-1)).toMatchObject(given);
    expect(floor.due).toBeUndefined();
    floor.on("phone", "archive");
    expect(floor.actors.context.floor.holder).toBeUndefined();
    expect(floor.chat("music", "m2").ok).toBe(true);
    expect(floor.state("music")).toBe("active.running");
  },
);

test("a session whose resume waits for a turn stays paused once that turn is withdrawn, if it gives the floor back", () => {
  const floor = new FloorStage(withMusic({ when_blocked: "queue", after_turn: "yield" }));
  floor.create("music");
  floor.on("music", "pause");
  floor.create("phone");
  floor.chat("music", "m1");
  expect(floor.view("music")?.pausedBy).toBe("preemption");
  floor.ask({ type: "session.withdraw", sessionId: "music", messageId: "m1" });
  floor.on("phone", "archive");
  expect(floor.view("music")).toMatchObject({ state: "paused", pausedBy: "yield" });
});

test("a session that waits while paused remembers only the messages that wait with it", () => {
  for (const keys of [{}, { when_busy: "interrupt" }]) {
    const floor = new FloorStage(withMusic({ when_blocked: "queue", ...keys }));
    floor.create("music");
    floor.on("music", "pause");
    floor.create("phone");
    for (const messageId of Array.from({ length: 40 }, (_, index) => `m${index}`)) {
      floor.chat("music", messageId);
      if (!("when_busy" in keys)) floor.ask({ type: "session.withdraw", sessionId: "music", messageId });
    }
    expect(floor.contextOf("music").request!.messageIds.length).toBeLessThan(3);
  }
});

/** A floor on which such a session waits behind a phone call with its turn `m1`. */
const waiting = () => {
  const floor = new FloorStage(withMusic({ when_blocked: "queue", queue_timeout: "30s" }));
  floor.create("phone");
  chatOnce(floor);
  expect(floor.state("music")).toBe("created");
  return floor;
};
const running = () => {
  const floor = waiting();
  floor.on("phone", "archive");
  floor.claim("music", "run-m1");
  expect(floor.state("music")).toBe("active.running");
  return floor;
};

test.each<[string, (floor: FloorStage) => unknown]>([
  ["", (floor) => floor.report("music", "run-m1", 1, DONE)],
  [" that failed", (floor) => floor.report("music", "run-m1", 1, REFUSED)],
  [" that was aborted", (floor) => floor.on("music", "abort")],
])("a session that ends with its turn is archived after its turn%s, and after a restart between", (_, end) => {
  const floor = running();
  floor.restart();
  end(floor);
  expect(floor.events("complete")).toHaveLength(1);
  expect(floor.state("music")).toBe("archived");
  expect(floor.actors.context.floor.holder).toBeUndefined();
});

test.each<[string, (floor: FloorStage) => unknown]>([
  ...TAKEN_BACK,
  ["has waited for the floor for too long", (floor) => floor.pass(30_000)],
])("a session that ends with its turn is archived when its waiting turn %s", (_, end) => {
  const floor = waiting();
  end(floor);
  expect(floor.state("music")).toBe("archived");
  floor.on("phone", "archive");
  expect(floor.actors.context.floor.holder).toBeUndefined();
});

test("a session that ends with its turn is archived only after the further turns that were sent to it", () => {
  const floor = new FloorStage(withMusic({ when_busy: "enqueue" }));
  chatOnce(floor);
  floor.chat("music", "m2");
  for (const [turn, after] of Object.entries({ m1: "active.running", m2: "archived" })) {
    floor.claim("music", `run-${turn}`);
    floor.report("music", `run-${turn}`, 1, DONE);
    expect(floor.state("music")).toBe(after);
  }
});

const outcome = (floor: FloorStage, agentId: string) => {
  const reply = floor.ask({ type: "session.switch_agent", sessionId: "music", agentId });
  return reply.ok ? reply.outcome : reply;
};

test("a switch of the agent is checked in the contract's order, and a failure leaves the agent unchanged", () => {
  const floor = playing();
  expect(outcome(floor, " ")).toMatchObject({ errorCode: "invalid_agent_id" });
  expect(outcome(floor, "Agent@1")).toMatchObject({ errorCode: "invalid_agent_id_format" });
  expect(outcome(floor, "hacker")).toMatchObject({ errorCode: "agent_busy" });
  floor.on("music", "abort");
  const unknown = { errorCode: "agent_not_found", message: "Invalid agent ID: hacker" };
  expect(outcome(floor, "hacker")).toMatchObject(unknown);
  expect(floor.contextOf("music").numbers.agentId).toBe("music");
});

test("a misspelt agent is refused with the agent that is probably meant, of those that the caller may choose", () => {
  const floor = playing();
  floor.on("music", "abort");
  const refusal = { errorCode: "agent_not_found", message: "Invalid agent ID: phnoe; did you mean phone?" };
  expect(outcome(floor, "phnoe")).toMatchObject(refusal);
  expect(floor.create("phnoe")).toMatchObject({ ok: false, code: refusal.errorCode, message: refusal.message });
});

test("a switch of the agent changes the session's priority and preempts no session", () => {
  const floor = new FloorStage(withMusic({}));
  floor.create("music");
  floor.create("weather");
  const switched = { previousAgentId: "music", currentAgentId: "phone", agentName: "Phone" };
  expect(outcome(floor, "phone")).toEqual(switched);
  expect(floor.state("weather")).toBe("active.idle");
  expect(floor.actors.context.floor.paused).toMatchObject([{ agentId: "phone", priority: 90 }]);
});

test("a floor is stored without sessions that do not compete and have nothing running", () => {
  const floor = playing();
  floor.create("weather", { activate: false });
  play(floor, "pause music; start planner; pause planner");
  floor.actors.drainTouched();
  floor.actors.evict();
  expect(floor.actors.drainTouched()).toEqual([]);
  expect([...floor.actors.neededIds()]).toEqual(["music"]);
  expect(Object.keys(JSON.parse(persistWhole(floor.actors)).children)).toEqual(["music"]);
});

test("a floor keeps only its competing sessions and the most recently used others in memory", () => {
  const floor = playing();
  for (let index = 0; index < 40; index++) floor.create("weather", { id: `w${index}`, activate: false });
  floor.actors.evict();
  const recent = Array.from({ length: 16 }, (_, n) => `w${n + 24}`);
  expect(floor.actors.sessionIds.sort()).toEqual(["music", ...recent]);
  expect(floor.on("w39", "archive").ok).toBe(true);
});
