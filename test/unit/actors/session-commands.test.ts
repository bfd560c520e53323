/** The commands about the floor by the state of the session that they are for. */

import { expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { play } from "../../support/floors/floor-script.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";

const CATALOG = makeCatalog([
  { name: "music", priority: 20 },
  { name: "patient", priority: 10, when_blocked: "queue" },
  { name: "phone", priority: 90, interruptible: false },
]);

/** How a session `s` gets into a state. */
const STATES = {
  created: (floor: FloorStage) => floor.create("music", { id: "s", activate: false }),
  "created, in a call": (floor: FloorStage) => inCall(floor, "music"),
  "created, in a call, of an agent that waits": (floor: FloorStage) => inCall(floor, "patient"),
  queued: (floor: FloorStage) => play(floor, "start phone; start s:patient"),
  active: (floor: FloorStage) => play(floor, "start s:music"),
  "paused by its user": (floor: FloorStage) => play(floor, "start s:music; pause s"),
  preempted: (floor: FloorStage) => play(floor, "start s:music; start phone"),
  "preempted, of an agent that waits": (floor: FloorStage) => play(floor, "start s:patient; start phone"),
  archived: (floor: FloorStage) => play(floor, "start s:music; end s"),
};

function inCall(floor: FloorStage, agentId: string): void {
  play(floor, "start phone");
  floor.create(agentId, { id: "s", activate: false });
}

/** What the answer says, the session afterwards, and the new events of its log. */
type Verb = Parameters<FloorStage["on"]>[1];
type Cell = readonly [verb: Verb, from: keyof typeof STATES, answer: string, after: string, logged: string];

const CELLS: readonly Cell[] = [
  ["activate", "created", "granted floor_free 4", "active", "arbitration, created→active.idle activate"],
  ["activate", "created, in a call", "rejected rejected lower_priority 5", "created", "arbitration"],
  [
    "activate",
    "created, in a call, of an agent that waits",
    "queued lower_priority 5",
    "created queued",
    "arbitration",
  ],
  ["activate", "queued", "queued lower_priority 5", "created queued", ""],
  ["activate", "active", "granted already_holder 3", "active", ""],
  ["activate", "paused by its user", "granted floor_free 4", "active", "arbitration, paused→active.idle resume"],
  ["activate", "preempted, of an agent that waits", "queued lower_priority 5", "paused by preemption", "arbitration"],
  ["activate", "archived", "session_archived", "archived", ""],
  ["resume", "created", "illegal_command", "created", ""],
  ["resume", "queued", "illegal_command", "created queued", ""],
  ["resume", "active", "granted already_holder 3", "active", ""],
  ["resume", "paused by its user", "granted floor_free 4", "active", "arbitration, paused→active.idle resume"],
  ["resume", "preempted", "rejected rejected lower_priority 5", "paused by preemption", "arbitration"],
  ["resume", "preempted, of an agent that waits", "queued lower_priority 5", "paused by preemption", "arbitration"],
  ["resume", "archived", "session_archived", "archived", ""],
  ["pause", "created", "illegal_command", "created", ""],
  ["pause", "queued", "illegal_command", "created queued", ""],
  ["pause", "active", "", "paused by user", "active.idle→paused pause"],
  ["pause", "paused by its user", "", "paused by user", ""],
  ["pause", "preempted", "", "paused by user", "paused→paused pause"],
  ["pause", "archived", "session_archived", "archived", ""],
  ...(["archive", "stop"] as const).flatMap((verb): Cell[] => [
    [verb, "created", "", "archived", "created→archived archive"],
    [verb, "queued", "", "archived", "created→archived archive"],
    [verb, "active", "", "archived", "active.idle→archived archive"],
    [verb, "preempted", "", "archived", "paused→archived archive"],
  ]),
  ["archive", "archived", "session_archived", "archived", ""],
  ["stop", "archived", "", "archived", ""],
  ["abort", "archived", "", "archived", ""],
];

function standing(floor: FloorStage): string {
  const { state, pausedBy, queuedAt } = floor.view("s")!;
  return [state, pausedBy && `by ${pausedBy}`, queuedAt && "queued"].filter(Boolean).join(" ");
}

test.each(CELLS)("%s of a session that is %s is answered with %j: it is then %j, and %j is logged", (...cell) => {
  const [verb, from, answer, after, logged] = cell;
  const floor = new FloorStage(CATALOG);
  STATES[from](floor);
  const before = floor.facts.length;
  const reply = floor.on("s", verb);
  const decision = decisionOf(reply);
  const said = [reply.ok ? undefined : reply.code, decision?.outcome, decision?.reason, decision?.rule];
  const events = floor.facts.slice(before).flatMap((fact) => {
    if (fact.type !== "event" || fact.event.sessionId !== "s") return [];
    const { type, data } = fact.event;
    if (type === "arbitration") expect(data).toEqual(decision);
    return type === "session_transition" ? `${data.from}→${data.to} ${data.event}` : type;
  });
  if (logged === "") expect(floor.facts.slice(before)).toEqual([]);
  expect([said.filter(Boolean).join(" "), standing(floor), events.join(", ")]).toEqual([answer, after, logged]);
  if (reply.ok || reply.code !== "illegal_command") return;
  expect(reply.facts?.["allowed"]).toEqual(expect.arrayContaining(["activate", "archive", "stop", "chat"]));
  expect(reply.facts?.["allowed"]).not.toContain(verb);
});
