/** Cases of docs/use/arbitration.md: what a decision does to sessions and their logs. */

import { expect, test } from "vitest";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { EXAMPLE_AGENTS, makeCatalog } from "../../support/catalogs/catalog.ts";
import { expectScene, play } from "../../support/floors/floor-script.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";

const stage = (agents = EXAMPLE_AGENTS) => new FloorStage(makeCatalog(agents));
const withAgent = (name: string, changes: Record<string, unknown>) =>
  EXAMPLE_AGENTS.map((agent) => (agent["name"] === name ? { ...agent, ...changes } : agent));

const queueing = withAgent("chat", { when_blocked: "queue", queue_timeout: "30s" });

const CATALOGS: Readonly<Record<string, Catalog>> = {
  examples: makeCatalog(EXAMPLE_AGENTS),
  queueing: makeCatalog(queueing),
  reserving: makeCatalog(EXAMPLE_AGENTS, { policy: { resume_delay: "2s" } }),
  resumingByHand: makeCatalog(withAgent("music", { resume: "manual" })),
  bounded: makeCatalog(queueing, { policy: { ties: "newest", max_paused: 2, max_queued: 1 } }),
  yieldingAtNinety: makeCatalog(withAgent("navigation", { preemption_threshold: 90 })),
  firmVehicle: makeCatalog(withAgent("vehicle", { interruptible: false })),
  ending: makeCatalog([
    { name: "first", priority: 50 },
    { name: "paused", priority: 60, max_pause: "10s" },
    { name: "idle", priority: 50, idle_timeout: "10s" },
  ]),
};

/** By what they show, each with its catalogue if that is not of the examples. */
const SCENES: Readonly<Record<string, string>> = {
  "a request that outranks an interruptible holder pauses it first, then is granted": `
    start m:music
    start p:phone → m preempt paused, p activate active.idle: granted preempted 7`,
  "a request of a higher priority is rejected by a holder that is not interruptible": `
    start n:navigation
    start p:phone → nothing: rejected not_interruptible 8
    = A=n`,
  "a holder that is not interruptible yields at its preemption_threshold": `
    in yieldingAtNinety
    start n:navigation
    start p:phone → n preempt paused, p activate active.idle: granted preempted 7`,
  "of equal priorities the first keeps the floor": `
    start m:music
    start n:music → nothing: rejected equal_priority 6`,
  "of equal priorities the newest gets the floor with ties: newest": `
    in bounded
    start m:music
    start n:music → m preempt paused, n activate active.idle: granted preempted 7`,
  "a request that would pause more sessions than max_paused is rejected": `
    in bounded
    start c:chat; start m:music; start w:weather
    start p:planner → nothing: rejected stack_full 7`,
  "a request that would wait in a full queue is rejected": `
    in bounded
    start p:phone; start c:chat
    start d:chat → nothing: rejected queue_full 5`,
  "releases resume a stack of interrupted sessions one after the other, and no other session": `
    start c:chat; start w:weather; start p:planner; start f:phone
    end f → f archive archived, p resume active.idle
    end p → p archive archived, w resume active.idle
    end w → w archive archived, c resume active.idle`,
  "a release skips a session that was archived while paused, and adds no event to the holder's log": `
    start c:chat; start p:planner; start f:phone
    end p → p archive archived
    end f → f archive archived, c resume active.idle`,
  "a release leaves a session paused whose agent resumes by hand": `
    in resumingByHand
    start m:music; start p:phone; end p
    resume m → m resume active.idle: granted floor_free 4`,
  "an explicit resume is arbitrated like any other request: if rejected, the session stays paused": `
    start w:weather; start p:phone
    resume w → nothing: rejected lower_priority 5
    = A=p P=w`,
  "an explicit resume is rejected by a holder that is not interruptible, even of a lower priority": `
    in firmVehicle
    start p:planner; pause p; start v:vehicle
    resume p → nothing: rejected not_interruptible 8
    = A=v`,
  "a queue keeps a blocked session until the floor is free, in its place if it asks again, and grants it the floor once": `
    in queueing
    start p:phone
    start c:chat → nothing: queued lower_priority 5
    activate c → nothing
    end p → p archive archived, c activate active.idle
    = A=c`,
  "a queue never grants a withdrawn request": `
    in queueing
    start p:phone; start c:chat; end c; end p
    =`,
  "a reserved floor has no holder and rejects sessions of lower priority": `
    in reserving
    start w:weather; start p:phone; end p
    start m:music → nothing: rejected lower_priority 5
    pass 2000 → w resume active.idle`,
  "a reserved floor is granted to a session that outranks the reserved one, without a second pause": `
    in reserving
    start w:weather; start f:phone; end f
    start p:planner → p activate active.idle: granted floor_free 2
    pass 2000 → nothing
    end p → p archive archived
    pass 2000 → w resume active.idle`,
  "a reserved floor goes to the next session when the reserved session ends first": `
    in reserving
    start m:music; start w:weather; start p:phone; end p; end w; pass 2000
    = A=m`,
  "of two that end at the same time, the one that asked later ends later, also if the other waits for nobody": `
    in ending
    start first; start paused; pause paused; end first; start idle
    pass 10000 → paused expire archived, idle yield paused`,
  "stopping the floor archives the holder and wakes the next session": `
    start m:music; start p:phone
    stop → p archive archived, m resume active.idle`,
};

test.each(Object.entries(SCENES))("%s", (_, text) => {
  const [, name = "examples", scene = ""] = /^\s*(?:in (\w+)\n)?(.*)$/s.exec(text)!;
  expectScene(CATALOGS[name]!, scene);
});

test("a rejection tells what would have been needed, in a sentence too, and leaves the holder's log untouched", () => {
  const floor = stage();
  floor.create("navigation");
  const facts = floor.factsOf(() => {
    expect(decisionOf(floor.create("phone"))).toMatchObject({
      wouldNeed: "priority ≥ navigation's preemption_threshold (none is set)",
      say: "Navigation is running; Phone has to wait.",
    });
  });
  expect(facts.filter((fact) => fact.type === "event" && fact.event.sessionId !== undefined)).toEqual([]);
});

test("a request for an unknown or disabled agent finds no agent, and nothing is created", () => {
  const floor = stage(withAgent("chat", { enabled: false }));
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

test("a release wakes the highest priority, a paused session before a queued one, and the one that waited longest", () => {
  const floor = stage(EXAMPLE_AGENTS.map((agent) => ({ ...agent, when_blocked: "queue" })));
  play(floor, "start paused:music; start navigation; start low:chat; start queued:music");
  play(floor, "start first:weather; start second:weather");
  for (const woken of ["first", "second", "paused", "queued", "low", undefined]) {
    floor.on(floor.actors.context.floor.holder!.sessionId, "archive");
    expect(floor.actors.context.floor.holder?.sessionId).toBe(woken);
  }
});

test("a queued session whose queue_timeout has passed stays created, and the turn that waited with it ends", () => {
  const floor = stage(queueing);
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

test("stopping an idle floor or a stopped session is not an error", () => {
  const floor = stage();
  expect(floor.ask({ type: "floor.stop" })).toMatchObject({ ok: true, archived: [] });
  expect(floor.ask({ type: "floor.stop_all" })).toMatchObject({ ok: true, archived: [] });
  floor.create("music");
  floor.on("music", "stop");
  expect(floor.on("music", "stop").ok).toBe(true);
});

test("stopping with all archives every competing session, and grants the floor to none that waits for it meanwhile", () => {
  const floor = stage(withAgent("chat", { when_blocked: "queue" }));
  play(floor, "start mine:weather; pause mine; start music; start phone; start chat");
  const decisions = floor.events("arbitration");
  const facts = floor.factsOf(() =>
    expect(floor.ask({ type: "floor.stop_all" })).toMatchObject({ archived: ["phone", "music", "chat"] }),
  );
  const ends = ["phone active.idle→archived", "music paused→archived", "chat created→archived"];
  expect(floor.transitions(facts)).toEqual(ends);
  expect(floor.events("arbitration")).toEqual(decisions);
  expect(floor.state("mine")).toBe("paused");
});
