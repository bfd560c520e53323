import { describe, expect, test } from "vitest";
import { EXAMPLE_AGENTS, makeCatalog } from "../../support/catalogs/catalog.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";
import { persistWhole } from "../../support/floors/persisted-floor.ts";

/** Cases of docs/use/arbitration.md: what a decision does to sessions and their logs. */

const stage = (rest: Record<string, unknown> = {}, agents = EXAMPLE_AGENTS) =>
  new FloorStage(makeCatalog(agents, rest));
const withAgent = (name: string, changes: Record<string, unknown>) =>
  EXAMPLE_AGENTS.map((agent) => (agent["name"] === name ? { ...agent, ...changes } : agent));

describe("a request", () => {
  test("a request that outranks an interruptible holder pauses it first, then is granted", () => {
    const floor = stage();
    floor.create("music");
    const { facts, reply } = floor.deliver({
      type: "session.create",
      sessionId: "phone",
      session: { sessionId: "phone", agentId: "phone", userId: "ann" },
      activate: true,
    });
    expect(decisionOf(reply)).toMatchObject({ outcome: "granted", reason: "preempted", rule: 7 });
    expect(floor.transitions(facts)).toEqual(["music active.idle→paused", "phone created→active.idle"]);
  });

  test("a request of a higher priority is rejected by a holder that is not interruptible, and leaves the holder's log untouched", () => {
    const floor = stage();
    floor.create("navigation");
    const { facts, reply } = floor.deliver({
      type: "session.create",
      sessionId: "phone",
      session: { sessionId: "phone", agentId: "phone", userId: "ann" },
      activate: true,
    });
    expect(decisionOf(reply)).toMatchObject({
      outcome: "rejected",
      reason: "not_interruptible",
      rule: 8,
      wouldNeed: "priority ≥ navigation's preemption_threshold (none is set)",
      say: "Navigation is running; Phone has to wait.",
    });
    expect(facts.filter((fact) => fact.type === "event" && fact.event.sessionId !== undefined)).toEqual([]);
    expect(floor.state("navigation")).toBe("active.idle");
  });

  test("a request of the holder changes nothing and logs nothing", () => {
    const floor = stage();
    floor.create("music");
    const { facts, reply } = floor.deliver({ type: "session.activate", sessionId: "music" });
    expect(decisionOf(reply)).toMatchObject({ outcome: "granted", reason: "already_holder", rule: 3 });
    expect(facts).toEqual([]);
  });

  test("a request for an unknown or disabled agent finds no agent, and nothing is created", () => {
    const floor = stage({}, withAgent("chat", { enabled: false }));
    for (const agent of ["nobody", "chat"]) {
      expect(floor.create(agent)).toMatchObject({ ok: false, code: "agent_not_found" });
      expect(floor.state(agent)).toBeUndefined();
    }
  });

  test("a request of a session whose agent was disabled or removed is rejected by the first rule", () => {
    const floor = stage();
    floor.create("chat", { activate: false });
    floor.catalog = makeCatalog(withAgent("chat", { enabled: false }));
    expect(decisionOf(floor.on("chat", "activate"))).toMatchObject({ reason: "agent_disabled", rule: 1 });
    floor.catalog = makeCatalog(EXAMPLE_AGENTS.filter((agent) => agent["name"] !== "chat"));
    expect(decisionOf(floor.on("chat", "activate"))).toMatchObject({ reason: "unknown_agent", rule: 1 });
  });
});

describe("releasing the floor", () => {
  test("releases resume a stack of interrupted sessions one after the other, and no other session", () => {
    const floor = stage();
    for (const agent of ["chat", "weather", "planner", "phone"]) floor.create(agent);
    for (const [ended, resumed] of [
      ["phone", "planner"],
      ["planner", "weather"],
      ["weather", "chat"],
    ] as const) {
      const { facts } = floor.deliver({ type: "session.archive", sessionId: ended });
      expect(floor.transitions(facts)).toEqual([`${ended} active.idle→archived`, `${resumed} paused→active.idle`]);
    }
  });

  test("a release skips a session that was archived while paused, and adds no event to the holder's log", () => {
    const floor = stage();
    for (const agent of ["chat", "planner", "phone"]) floor.create(agent);
    const { facts } = floor.deliver({ type: "session.archive", sessionId: "planner" });
    expect(floor.transitions(facts)).toEqual(["planner paused→archived"]);
    floor.on("phone", "archive");
    expect(floor.state("chat")).toBe("active.idle");
  });

  test("a release wakes the highest priority, a paused session before a queued one, and the one that waited longest", () => {
    const agents = EXAMPLE_AGENTS.map((agent) => ({ ...agent, when_blocked: "queue" }));
    const floor = stage({}, agents);
    floor.create("music", { id: "paused" });
    floor.create("navigation");
    floor.create("chat", { id: "low" });
    floor.create("music", { id: "queued" });
    floor.create("weather", { id: "first" });
    floor.create("weather", { id: "second" });
    const woken = [];
    for (let holder = "navigation"; ; ) {
      floor.on(holder, "archive");
      const next = floor.actors.context.floor.holder;
      if (!next) break;
      holder = next.sessionId;
      woken.push(holder);
    }
    expect(woken).toEqual(["first", "second", "paused", "queued", "low"]);
  });

  test("a release leaves a session paused whose agent resumes by hand", () => {
    const floor = stage({}, withAgent("music", { resume: "manual" }));
    floor.create("music");
    floor.create("phone");
    floor.on("phone", "archive");
    expect(floor.state("music")).toBe("paused");
    expect(decisionOf(floor.on("music", "resume"))).toMatchObject({ outcome: "granted", reason: "floor_free" });
  });
});

describe("an explicit resume", () => {
  test("an explicit resume is arbitrated like any other request: if rejected, the session stays paused", () => {
    const floor = stage();
    floor.create("weather");
    floor.create("phone");
    expect(decisionOf(floor.on("weather", "resume"))).toMatchObject({ reason: "lower_priority" });
    expect(floor.state("weather")).toBe("paused");
  });

  test("an explicit resume is rejected by a holder that is not interruptible, even of a lower priority", () => {
    const floor = stage({}, withAgent("vehicle", { interruptible: false }));
    floor.create("planner");
    floor.on("planner", "pause");
    floor.create("vehicle");
    expect(decisionOf(floor.on("planner", "resume"))).toMatchObject({ reason: "not_interruptible" });
    expect(floor.state("planner")).toBe("paused");
  });
});

describe("a queue", () => {
  const queueing = withAgent("chat", { when_blocked: "queue", queue_timeout: "30s" });

  test("a queue keeps a blocked session until the floor is free, and grants it the floor once", () => {
    const floor = stage({}, queueing);
    floor.create("phone");
    expect(decisionOf(floor.create("chat"))).toMatchObject({ outcome: "queued", reason: "lower_priority" });
    expect(floor.state("chat")).toBe("created");
    floor.on("phone", "archive");
    expect(floor.state("chat")).toBe("active.idle");
    expect(floor.events("arbitration").at(-1)).toMatchObject({ outcome: "granted", reason: "dequeued" });
  });

  test("a queue never grants a withdrawn request", () => {
    const floor = stage({}, queueing);
    floor.create("phone");
    floor.create("chat");
    floor.on("chat", "archive");
    floor.on("phone", "archive");
    expect(floor.state("chat")).toBe("archived");
  });

  test("a session that asks again keeps its place in the queue", () => {
    const floor = stage({}, queueing);
    floor.create("phone");
    floor.create("chat");
    const { facts, reply } = floor.deliver({ type: "session.activate", sessionId: "chat" });
    expect(reply.ok).toBe(true);
    expect(facts).toEqual([]);
  });

  test("a queued session whose queue_timeout has passed stays created, and the turn that waited with it ends", () => {
    const floor = stage({}, queueing);
    floor.create("phone");
    floor.create("chat", { activate: false });
    expect(floor.chat("chat", "m1")).toMatchObject({ ok: true, messageId: "m1" });
    floor.pass(29_999);
    expect(floor.actors.context.floor.queued).toHaveLength(1);
    floor.pass(1);
    expect(floor.events("arbitration").at(-1)).toMatchObject({ outcome: "rejected", reason: "queue_timeout" });
    expect(floor.events("complete")).toMatchObject([{ runId: "run-m1", cancelled: true }]);
    floor.on("phone", "archive");
    expect(floor.state("chat")).toBe("created");
  });
});

describe("a reserved floor", () => {
  const delayed = { policy: { resume_delay: "2s" } };

  test("a reserved floor has no holder and rejects sessions of lower priority", () => {
    const floor = stage(delayed);
    floor.create("weather");
    floor.create("phone");
    floor.on("phone", "archive");
    expect(floor.actors.context.floor.holder).toBeUndefined();
    expect(decisionOf(floor.create("music"))).toMatchObject({ outcome: "rejected", reason: "lower_priority", rule: 5 });
    floor.pass(2_000);
    expect(floor.state("weather")).toBe("active.idle");
  });

  test("a reserved floor is granted to a session that outranks the reserved one, without a second pause", () => {
    const floor = stage(delayed);
    floor.create("weather");
    floor.create("phone");
    floor.on("phone", "archive");
    const { facts, reply } = floor.deliver({
      type: "session.create",
      sessionId: "planner",
      session: { sessionId: "planner", agentId: "planner", userId: "ann" },
      activate: true,
    });
    expect(decisionOf(reply)).toMatchObject({ outcome: "granted", reason: "floor_free", rule: 2 });
    expect(floor.transitions(facts)).toEqual(["planner created→active.idle"]);
    floor.pass(2_000);
    expect(floor.state("weather")).toBe("paused");
    floor.on("planner", "archive");
    floor.pass(2_000);
    expect(floor.state("weather")).toBe("active.idle");
  });

  test("a reserved floor goes to the next session when the reserved session ends first", () => {
    const floor = stage(delayed);
    floor.create("music");
    floor.create("weather");
    floor.create("phone");
    floor.on("phone", "archive");
    floor.on("weather", "archive");
    floor.pass(2_000);
    expect(floor.state("music")).toBe("active.idle");
  });
});

describe("stopping", () => {
  test("stopping an idle floor or a stopped session is not an error", () => {
    const floor = stage();
    expect(floor.ask({ type: "floor.stop" })).toMatchObject({ ok: true, archived: [] });
    expect(floor.ask({ type: "floor.stop_all" })).toMatchObject({ ok: true, archived: [] });
    floor.create("music");
    floor.on("music", "stop");
    expect(floor.on("music", "stop").ok).toBe(true);
  });

  test("stopping the floor archives the holder and wakes the next session", () => {
    const floor = stage();
    floor.create("music");
    floor.create("phone");
    expect(floor.ask({ type: "floor.stop" })).toMatchObject({ archived: ["phone"] });
    expect(floor.state("music")).toBe("active.idle");
  });

  test("stopping with all archives every competing session and resumes none", () => {
    const floor = stage({}, withAgent("chat", { when_blocked: "queue" }));
    floor.create("weather", { id: "mine" });
    floor.on("mine", "pause");
    floor.create("music");
    floor.create("phone");
    floor.create("chat");
    expect(floor.ask({ type: "floor.stop_all" })).toMatchObject({ archived: ["phone", "music", "chat"] });
    expect(["phone", "music", "chat"].map((id) => floor.state(id))).toEqual(["archived", "archived", "archived"]);
    expect(floor.state("mine")).toBe("paused");
  });
});

describe("an archived session", () => {
  test("an archived session refuses every command that would reactivate it", () => {
    const floor = stage();
    floor.create("music");
    floor.on("music", "archive");
    for (const verb of ["activate", "resume", "pause", "archive"] as const) {
      expect(floor.on("music", verb)).toMatchObject({ ok: false, code: "session_archived" });
    }
    expect(floor.chat("music", "m1")).toMatchObject({ ok: false, code: "session_archived" });
    expect(floor.on("music", "abort").ok).toBe(true);
  });
});

describe("what-if", () => {
  test("what-if returns the decision that a request would get, and changes nothing", () => {
    const floor = stage();
    floor.create("navigation");
    const before = persistWhole(floor.actors);
    const { facts, reply } = floor.deliver({ type: "floor.what_if", agentId: "phone" });
    expect(decisionOf(reply)).toMatchObject({ outcome: "rejected", reason: "not_interruptible" });
    expect(decisionOf(floor.ask({ type: "floor.what_if", agentId: "nobody" }))).toMatchObject({ rule: 1 });
    expect(facts).toEqual([]);
    expect(persistWhole(floor.actors)).toBe(before);
  });
});
