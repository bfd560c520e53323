/** A floor settles although its catalogue, a session's agent or a priority changed after its sessions were arranged. */

import { expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";

const catalog = makeCatalog(
  [
    { name: "front", priority: 90, beneath: { all: -30 } },
    { name: "open", priority: 50, when_preempted: "duck", when_blocked: "duck", beneath: { all: -3, open: -3 } },
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

test("a switch of the agent on a reserved floor silences at once who may no longer be heard, and a holder follows", () => {
  const floor = reserve();
  const events = floor.events(
    "session_transition",
    floor.factsOf(() => switchAgent(floor, "open", "prompt")),
  );
  expect(events).toMatchObject([{ from: "ducked.idle", to: "paused", event: "preempt", reason: "agent_switched" }]);
  expect(floor.actors.context.floor).toMatchObject({
    reserved: { sessionId: "open" },
    ducked: [{ sessionId: "open", level: -30 }],
    paused: [{ sessionId: "prompt" }],
  });
  floor.pass(1_000);
  expect(floor.actors.context.floor).toMatchObject({ holder: { sessionId: "open" }, ducked: [] });
});

test("after a switch of the agent on a reserved floor, sessions that let each other be heard keep their levels", () => {
  const floor = reserve();
  expect(floor.transitions(floor.factsOf(() => switchAgent(floor, "prompt", "open")))).toEqual([]);
  expect(floor.actors.context.floor.ducked).toMatchObject([{ level: -30 }, { level: -30 }]);
});

/** The night begins at 22:00 for all but calls; the flag `meeting` restricts too. */
const NIGHT = makeCatalog([{ name: "call", priority: 90 }, { name: "music" }], {
  restrictions: [
    { name: "night", between: "22:00-07:00", allow: ["call"] },
    { name: "meeting", when: "meeting" },
  ],
});
const HOUR_MS = 3_600_000;
const toldOf = (floor: FloorStage, what: () => unknown) =>
  floor.events("floor_updated", floor.factsOf(what)).map(({ restrictedBy }) => restrictedBy);

test("who follows a floor is told when hours begin and end, also where they change nobody's place", () => {
  const floor = new FloorStage(NIGHT);
  expect(toldOf(floor, () => floor.create("call"))).toEqual([[]]);
  expect(toldOf(floor, () => floor.pass(10 * HOUR_MS - 1))).toEqual([]);
  expect(toldOf(floor, () => floor.pass(1))).toEqual([["night"]]);
  expect(toldOf(floor, () => floor.on("call", "activate"))).toEqual([]);
  floor.restart();
  expect(toldOf(floor, () => floor.ask({ type: "floor.flags", flags: { meeting: true } }))).toEqual([
    ["night", "meeting"],
  ]);
  expect(toldOf(floor, () => floor.pass(24 * HOUR_MS))).toEqual([["meeting"], ["night", "meeting"]]);
});

test("a what-if of the hours is decided as the request then is, before they begin and in them", () => {
  const floor = new FloorStage(NIGHT);
  const decided = () => {
    const preview = decisionOf(floor.ask({ type: "floor.what_if", agentId: "music" }));
    expect(decisionOf(floor.create("music"))?.reason).toBe(preview?.reason);
    return preview?.reason;
  };
  expect(decided()).toBe("floor_free");
  floor.pass(10 * HOUR_MS);
  floor.on("music", "delete");
  floor.restart();
  expect(decided()).toBe("restricted");
});

test("the hours are told before what they do to a session", () => {
  const floor = new FloorStage(NIGHT);
  floor.create("music");
  const facts = floor.factsOf(() => floor.pass(10 * HOUR_MS));
  const events = facts.flatMap((fact) => (fact.type === "event" ? [fact.event.type] : []));
  expect(events).toEqual(["floor_updated", "session_transition"]);
});

test("a wall clock that is set to other hours, and a catalogue with other hours, are told once", () => {
  const floor = new FloorStage(NIGHT);
  floor.create("call");
  const reloaded = makeCatalog([{ name: "call", priority: 90 }], {
    restrictions: [{ name: "noon", between: "11:00-13:00", allow: ["call"] }],
  });
  floor.catalog = reloaded;
  expect(toldOf(floor, () => floor.on("call", "activate"))).toEqual([["noon"]]);
  floor.now += 2 * HOUR_MS;
  expect(toldOf(floor, () => floor.on("call", "activate"))).toEqual([[]]);
});

test("a wall clock that is set back to other hours is told, and a session comes back", () => {
  const floor = new FloorStage(NIGHT);
  floor.create("music");
  floor.pass(10 * HOUR_MS);
  expect(floor.state("music")).toBe("paused");
  const given = floor.given.bind(floor);
  floor.given = (stamp) => ({ ...given(stamp), now: floor.now - HOUR_MS });
  expect(toldOf(floor, () => floor.ask({ type: "alarm" }))).toEqual([[]]);
  expect(floor.state("music")).toBe("active.idle");
});

test("the first session of a floor hears of the hours that changed while the floor had none", () => {
  const floor = new FloorStage(NIGHT);
  floor.create("call");
  floor.pass(10 * HOUR_MS);
  expect(toldOf(floor, () => floor.on("call", "archive"))).toEqual([]);
  expect(toldOf(floor, () => floor.pass(12 * HOUR_MS))).toEqual([]);
  expect(toldOf(floor, () => floor.create("call", { id: "next" }))).toEqual([[]]);
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
  const facts = floor.factsOf(() => {
    const beneath = { reason: "beneath", challenger: { priority: 30 } };
    expect(decisionOf(floor.on("chime", "activate"))).toMatchObject(beneath);
  });
  expect(floor.transitions(facts)).toEqual([]);
  expect(floor.actors.context.floor.ducked).toMatchObject([{ priority: 30 }]);
  expect(floor.view("chime")).toMatchObject({ state: "ducked", priority: 30 });
});
