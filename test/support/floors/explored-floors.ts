/** Small floors whose every reachable state is explored. */

import { explore, variationsOf } from "../../../src/policy/exploration.ts";
import { CAR, RESTRICTIONS } from "../catalogs/car-catalog.ts";
import { makeCatalog } from "../catalogs/catalog.ts";

interface MixedAgent {
  name: string;
  replaces?: string[];
  beneath?: object;
}

/** Agents that mix all keys, at a few priorities. */
const MIXED = [
  { name: "plain20" },
  { name: "plain20q", when_blocked: "queue", idle_yields: true },
  { name: "firm20", interruptible: false, yields_to: ["firm20", "over20", "plain20q"] },
  { name: "duck20", when_preempted: "duck", when_blocked: ["duck", "queue"] },
  { name: "start20firm", when_preempted: "duck", when_blocked: "duck", interruptible: false },
  { name: "manual20", when_preempted: "duck", resume: "manual", when_blocked: ["queue", "duck"] },
  { name: "over20", beneath: { all: -14, over20: -2 }, when_preempted: "duck" },
  { name: "picky20", beneath: { duck20: -6, all: "pause" } },
  {
    name: "newest20",
    replaces: ["newest20", "plain20", "duck20"],
    when_preempted: "duck",
    when_blocked: ["duck", "queue"],
    beneath: { all: -1 },
  },
  { name: "over50duck", priority: 50, beneath: { all: -10 }, when_preempted: "duck", when_blocked: "duck" },
  { name: "firm50", priority: 50, interruptible: false, preemption_threshold: 80, beneath: { duck20: -3 } },
  { name: "beneath50", priority: 50, when_preempted: "duck", when_blocked: ["duck", "queue"] },
  {
    name: "replace50",
    priority: 50,
    replaces: ["plain20q", "over50duck", "firm50", "crit80"],
    beneath: { over20: -1 },
    when_blocked: "queue",
  },
  {
    name: "gone80",
    priority: 80,
    beneath: { all: -30 },
    when_preempted: "duck",
    interruptible: false,
    max_pause: "0ms",
  },
  { name: "crit80", priority: 80, critical: true },
  { name: "crit10", priority: 10, critical: true, beneath: { all: -5 } },
].map((agent: MixedAgent) => ({ priority: 20, ...agent }));
const QUIET = [
  { name: "quiet", when: "quiet", allow: ["firm20", "over50duck", "duck20", "over20"] },
  { name: "finish", when: "finish", allow: ["crit10", "plain20q"], others: "finish" },
];

/** Three sessions meet here in few states: a front, one beneath it that does not yield, and a challenger. */
const SMALL = [
  { name: "over", priority: 50, beneath: { all: -10 } },
  {
    name: "firm",
    interruptible: false,
    when_preempted: "duck",
    when_blocked: "duck",
    replaces: ["firm"],
    beneath: { firm: -5 },
  },
  { name: "alone", priority: 80 },
];

/** Hours that let sessions finish, that pause them on one day, and that need a flag. */
const HOURS = [
  { name: "evening", between: "20:00-22:00", allow: ["alone"], others: "finish" },
  { name: "night", between: "22:00-07:00", days: ["sat"], allow: ["firm"] },
  { name: "meeting", days: ["tue"], when: "busy", allow: ["over", "alone"] },
];

/** Some of the agents above, without what they say of the others. */
function mixed(...names: string[]): object[] {
  const isThere = (name: string) => names.includes(name);
  return MIXED.filter(({ name }) => isThere(name)).map(({ replaces, beneath, ...agent }) => ({
    ...agent,
    ...(replaces && { replaces: replaces.filter(isThere) }),
    ...(beneath && {
      beneath: Object.fromEntries(Object.entries(beneath).filter(([name]) => name === "all" || isThere(name))),
    }),
  }));
}

const NEWEST = { ties: "newest", resume_delay: "1s", max_paused: 1 };

export type Floor = readonly [
  name: string,
  size: number,
  agents: object[],
  rest: Record<string, unknown>,
  disables?: readonly string[],
];
/** What is explored in seconds. */
export const FLOORS: readonly Floor[] = [
  ["a small floor, three sessions", 3, SMALL, {}],
  ["the car, two sessions", 2, CAR, { restrictions: RESTRICTIONS }, ["phone_agent", "music_agent"]],
  ["a turn that is reserved, two sessions", 2, mixed("firm50", "gone80"), { policy: NEWEST }],
  ["a rank that is replaced, two sessions", 2, mixed("plain20q", "replace50"), { policy: NEWEST }],
  ["what resumes after a second, two sessions", 2, mixed("start20firm", "over20", "beneath50"), { policy: NEWEST }],
];

/** What takes tens of seconds. */
export const LARGE_FLOORS: readonly Floor[] = [
  ["the car, three sessions", 3, CAR, {}],
  [
    "quiet hours, three sessions",
    3,
    [...SMALL, { name: "fire", priority: 90, critical: true }],
    { restrictions: HOURS },
  ],
  ...(
    [
      ["newest", "1s", 1],
      ["reject", "0ms", 32],
    ] as const
  ).map(([ties, resume_delay, max_paused]): Floor => {
    const name = `all keys, ties ${ties}, resume_delay ${resume_delay}, limit ${max_paused}`;
    return [name, 2, MIXED, { restrictions: QUIET, policy: { ties, resume_delay, max_paused } }];
  }),
];

export function exploreFloor([, size, agents, rest, disables = []]: Floor) {
  const catalog = makeCatalog(agents as never, rest);
  return explore({ catalog, size, variations: { ...variationsOf(catalog), disables } });
}
