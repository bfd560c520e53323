/**
 * Logs with one fault each, which the checker of a floor's log must find. `invariants.property.test.ts` checks correct
 * ones.
 */

import { expect, test } from "vitest";
import type { Decision } from "../../../src/protocol/decision.ts";
import type { LogEntry, LoggedType } from "../../../src/protocol/event.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorLogCheck } from "../../support/floors/floor-log-check.ts";
import { NOON } from "../../support/stores/floor-writer.ts";

const AGENTS = [
  { name: "phone", priority: 90, interruptible: false, max_hold: "1m" },
  { name: "music", priority: 20 },
  { name: "podcast", priority: 20, replaces: ["music"] },
  { name: "ecall", priority: 100, critical: true },
];
const RESTRICTIONS = [{ name: "reverse", when: "reverse_gear", allow: ["phone"] }];

type Told = [type: LoggedType, data: object, sessionId?: string, at?: number];

const created = (id: string, agentId = id): Told => ["session_created", { id, agentId }, id];
const goes = (id: string, event: string, from: string, to: string, more: object = {}): Told => [
  "session_transition",
  { event, from, to, ...more },
  id,
];
const starts = (id: string): Told => goes(id, "activate", "created", "active.idle");
const decided = (outcome: string, reason: string, id: string, priority: number, more: Partial<Decision> = {}): Told => [
  "arbitration",
  { outcome, reason, challenger: { sessionId: id, agentId: id, priority, explained: [] }, ...more },
  id,
];
const by = (id: string) => ({ by: { sessionId: id, agentId: id } });
const effects = (id: string, becomes: "paused" | "archived") =>
  ({ effects: [{ sessionId: id, agentId: id, becomes }] }) as unknown as Partial<Decision>;

function check(told: readonly Told[], agents: object[] = AGENTS): void {
  const catalog = makeCatalog(agents as never, agents === AGENTS ? { restrictions: RESTRICTIONS } : {});
  const log = new FloorLogCheck(catalog);
  let at = NOON;
  for (const [index, [type, data, sessionId, given]] of told.entries()) {
    at = given ?? at;
    const entry = { floorSeq: index + 1, type, at, json: JSON.stringify(data) };
    log.take({ ...entry, sessionId: sessionId as SessionId | undefined } as LogEntry);
  }
  log.end(at);
}

const MUSIC_PLAYS = [created("music"), decided("granted", "floor_free", "music", 20), starts("music")];
const PLAIN = [
  { name: "phone", priority: 90 },
  { name: "music", priority: 20 },
];

test.each<[what: string, invariant: string, told: Told[], agents?: object[]]>([
  ["two sessions that are active at once", "1:", [...MUSIC_PLAYS, created("phone"), starts("phone")]],
  [
    "a session that is preempted without a decision",
    "2′:",
    [...MUSIC_PLAYS, created("phone"), goes("music", "preempt", "active.idle", "paused", by("phone"))],
  ],
  [
    "a session that does not yield, and is preempted",
    "2′:",
    [
      created("phone"),
      decided("granted", "floor_free", "phone", 90),
      starts("phone"),
      created("music"),
      decided("granted", "preempted", "music", 20, effects("phone", "paused")),
      goes("phone", "preempt", "active.idle", "paused", by("music")),
    ],
  ],
  [
    "two that are heard, of which neither lets the other be heard",
    "3′:",
    [...MUSIC_PLAYS, created("phone"), goes("phone", "duck", "created", "ducked.idle", { level: -6 })],
  ],
  [
    "a paused session that becomes created",
    "4:",
    [...MUSIC_PLAYS, goes("music", "pause", "active.idle", "paused"), goes("music", "pause", "paused", "created")],
  ],
  [
    "an archived session that goes on",
    "5:",
    [
      ...MUSIC_PLAYS,
      goes("music", "archive", "active.idle", "archived"),
      goes("music", "resume", "archived", "active.idle"),
    ],
  ],
  [
    "a session that is not critical and ends a critical one",
    "11:",
    [
      created("ecall"),
      decided("granted", "floor_free", "ecall", 100),
      starts("ecall"),
      created("podcast"),
      decided("granted", "replaced", "podcast", 100, effects("ecall", "archived")),
      goes("ecall", "archive", "active.idle", "archived", { reason: "replaced", ...by("podcast") }),
    ],
  ],
  [
    "a rejection in the holder's log",
    "6:",
    [...MUSIC_PLAYS, decided("rejected", "lower_priority", "music", 20, { holder: { sessionId: "music" } as never })],
  ],
  [
    "a critical session that is refused",
    "11:",
    [created("ecall"), decided("rejected", "lower_priority", "ecall", 100)],
  ],
  [
    "a ducked session in a catalogue without the keys for it",
    "12:",
    [created("music"), goes("music", "duck", "created", "ducked.idle", { level: -6 })],
    PLAIN,
  ],
  [
    "a session that is heard while a restriction does not allow it",
    "13:",
    [["floor_updated", { flags: { reverse_gear: true } }], created("music"), starts("music")],
  ],
  [
    "a session that is in front for too long",
    "15:",
    [
      created("phone"),
      starts("phone"),
      ["session_transition", { event: "yield", from: "active.idle", to: "paused" }, "phone", NOON + 130_000],
    ],
  ],
  [
    "a session that is heard after one came to the front that replaces it",
    "16:",
    [
      ...MUSIC_PLAYS,
      created("podcast"),
      goes("music", "duck", "active.idle", "ducked.idle", { level: 0 }),
      decided("granted", "replaced", "podcast", 20, { rule: 11 }),
      starts("podcast"),
    ],
    [
      { name: "music", priority: 20, when_preempted: "duck" },
      { name: "podcast", priority: 20, replaces: ["music"], beneath: { all: 0 } },
    ],
  ],
  [
    "a decision that does not do to others what it says",
    "a decision did not do what it says",
    [...MUSIC_PLAYS, created("phone"), decided("granted", "preempted", "phone", 90, effects("music", "paused"))],
  ],
])("the check of a floor's log finds %s", (_, invariant, told, agents) => {
  expect(() => check(told, agents)).toThrow(invariant);
});
