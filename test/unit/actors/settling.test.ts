import { describe, expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";

/** A floor settles although its catalogue, a session's agent or a priority changed after its sessions were arranged. */

describe("a switch of the agent while the floor is reserved", () => {
  const catalog = makeCatalog(
    [
      { name: "front", priority: 90, beneath: { all: -30 } },
      { name: "open", priority: 50, when_preempted: "duck", when_blocked: "duck", beneath: { all: -3 } },
      { name: "prompt", priority: 20, interruptible: false, when_preempted: "duck", when_blocked: "duck" },
    ],
    { policy: { resume_delay: "1s" } },
  );
  const reserve = () => {
    const floor = new FloorStage(catalog);
    for (const agentId of ["front", "open", "prompt"]) floor.create(agentId);
    floor.on("front", "archive");
    expect(floor.actors.context.floor).toMatchObject({ reserved: { sessionId: "open" } });
    return floor;
  };
  const switchAgent = (floor: FloorStage, sessionId: string, agentId: string) =>
    floor.ask({ type: "session.switch_agent", sessionId, agentId });

  test("a ducked session goes silent at once if the new agent above it does not let it be heard", () => {
    const floor = reserve();
    const before = floor.facts.length;
    switchAgent(floor, "open", "prompt");
    const events = floor.events("session_transition", floor.facts.slice(before));
    expect(events).toMatchObject([{ from: "ducked.idle", to: "paused", event: "preempt", reason: "agent_switched" }]);
    expect(floor.actors.context.floor).toMatchObject({
      reserved: { sessionId: "open" },
      ducked: [{ sessionId: "open", level: -30 }],
      paused: [{ sessionId: "prompt" }],
    });
  });

  test("the reservation ends with a holder", () => {
    const floor = reserve();
    switchAgent(floor, "open", "prompt");
    floor.pass(1_000);
    expect(floor.actors.context.floor).toMatchObject({ holder: { sessionId: "open" }, ducked: [] });
  });

  test("ducked sessions that let each other be heard keep their levels", () => {
    const floor = reserve();
    const before = floor.facts.length;
    switchAgent(floor, "prompt", "open");
    expect(floor.transitions(floor.facts.slice(before))).toEqual([]);
    expect(floor.actors.context.floor.ducked).toMatchObject([{ level: -30 }, { level: -30 }]);
  });
});

describe("a new catalogue", () => {
  const agents = [
    { name: "front", priority: 90, beneath: { all: -14 } },
    { name: "middle", priority: 50, when_preempted: "duck", when_blocked: "duck", beneath: { all: -30 } },
    { name: "music", priority: 20, when_preempted: "duck", when_blocked: "duck" },
  ];
  const restrictions = (others: string) => [{ name: "reverse", when: "reverse_gear", allow: ["front"], others }];
  const restricted = makeCatalog(agents, { restrictions: restrictions("pause") });
  const plain = makeCatalog([{ name: "front" }, { name: "middle" }, { name: "music" }]);
  const begin = (catalog = makeCatalog(agents), flags: Record<string, boolean> = {}) => {
    const floor = new FloorStage(catalog);
    floor.ask({ type: "floor.flags", flags });
    return floor;
  };

  test("a session that its restriction does not allow goes silent when the holder leaves, and returns with the flag", () => {
    const floor = begin(undefined, { reverse_gear: true });
    floor.create("front");
    floor.create("music");
    floor.catalog = restricted;
    const before = floor.facts.length;
    floor.on("front", "archive");
    const left = floor.facts.slice(before);
    expect(floor.transitions(left)).toEqual(["front active.idle→archived", "music ducked.idle→paused"]);
    expect(floor.events("session_transition", left)[1]).toMatchObject({ event: "preempt", reason: "restricted" });
    expect(floor.actors.context.floor).toMatchObject({ ducked: [], paused: [{ sessionId: "music" }] });
    floor.ask({ type: "floor.patch_flags", flags: { reverse_gear: false } });
    expect(floor.state("music")).toBe("active.idle");
  });

  test("a session that its restriction ends is archived when the holder leaves", () => {
    const floor = begin(undefined, { reverse_gear: true });
    floor.create("front");
    floor.create("music");
    floor.catalog = makeCatalog(agents, { restrictions: restrictions("stop") });
    floor.on("front", "archive");
    expect(floor.state("music")).toBe("archived");
  });

  test("a session that its restriction does not allow goes silent when a reservation ends", () => {
    const policy = { resume_delay: "1s" };
    const floor = begin(makeCatalog(agents, { policy }), { reverse_gear: true });
    floor.create("front");
    floor.create("music");
    floor.on("front", "archive");
    floor.catalog = makeCatalog(agents, { policy, restrictions: restrictions("pause") });
    floor.pass(1_000);
    expect(floor.state("music")).toBe("paused");
    expect(floor.actors.context.floor).toMatchObject({ ducked: [], paused: [{ sessionId: "music" }] });
  });

  test("a session that a removed restriction has paused resumes when the flag is cleared", () => {
    const floor = begin(restricted);
    floor.create("music");
    floor.ask({ type: "floor.patch_flags", flags: { reverse_gear: true } });
    expect(floor.state("music")).toBe("paused");
    floor.catalog = plain;
    floor.ask({ type: "floor.patch_flags", flags: { reverse_gear: false } });
    expect(floor.state("music")).toBe("active.idle");
  });

  test("ducked sessions have the right levels when one of them leaves, although no agent lets any be heard any more", () => {
    const floor = begin();
    for (const agentId of ["front", "middle", "music"]) floor.create(agentId);
    expect(floor.actors.context.floor.ducked).toMatchObject([{ level: -14 }, { level: -30 }]);
    floor.catalog = plain;
    floor.on("middle", "archive");
    expect(floor.actors.context.floor.ducked).toMatchObject([{ sessionId: "music", level: -14 }]);
    expect(floor.state("music")).toBe("ducked.idle");
  });

  test("a ducked session that switches to an agent which no holder lets be heard goes silent", () => {
    const floor = begin();
    floor.create("front");
    floor.create("music");
    floor.catalog = plain;
    floor.ask({ type: "session.switch_agent", sessionId: "music", agentId: "middle" });
    expect(floor.events("session_transition").at(-1)).toMatchObject({ to: "paused", reason: "agent_switched" });
    expect(floor.actors.context.floor).toMatchObject({ ducked: [], paused: [{ sessionId: "music" }] });
  });
});

test("a critical session that is heard beneath another competes with its new priority when it asks again", () => {
  const car = (priority: number) =>
    makeCatalog([
      { name: "ecall", priority: 100, critical: true },
      { name: "chime", priority, critical: true },
    ]);
  const floor = new FloorStage(car(50));
  floor.create("ecall");
  floor.create("chime");
  floor.catalog = car(30);
  const before = floor.facts.length;
  expect(decisionOf(floor.on("chime", "activate"))).toMatchObject({ reason: "beneath", challenger: { priority: 30 } });
  expect(floor.transitions(floor.facts.slice(before))).toEqual([]);
  expect(floor.actors.context.floor.ducked).toMatchObject([{ priority: 30 }]);
  expect(floor.view("chime")).toMatchObject({ state: "ducked", priority: 30 });
});
