import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { readCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { catalogOf } from "../catalogs/catalog-faults.ts";
import type { Chance } from "../runner/chance.ts";
import {
  DAYS,
  type JudgedAgent,
  type JudgedCatalog,
  type JudgedClaim,
  type JudgedRestriction,
  type JudgedRule,
  subjectOf,
} from "./judged-catalog.ts";

export const NAMES = ["a", "b", "c"] as const;
export const FLAGS = ["reverse", "quiet"] as const;
const LENGTHS = [undefined, undefined, "0ms", "2s", "5s"];
/** With offsets of a quarter of an hour, without summer, with half an hour of it, and with summer in the south. */
const ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Chatham"];
const HOURS = ["10:00-10:30", "12:00-12:30", "11:45-12:05", "22:00-06:00", "00:00-00:30"];

/** A random agent, with every key that a decision may read. */
function randomAgent(name: string, chance: Chance): JudgedAgent {
  const isExternal = chance.percent(50);
  const isCritical = chance.percent(10);
  const whenPreempted = chance.pick(["pause", "duck"]);
  const ways = ["reject", "queue", ...(whenPreempted === "duck" ? ["duck", ["duck", "queue"], ["queue", "duck"]] : [])];
  const keys = {
    name,
    priority: chance.pick([20, 50, 80]),
    interruptible: chance.pick([true, true, false]),
    preemption_threshold: chance.pick([undefined, undefined, 60]),
    when_preempted: whenPreempted,
    beneath: chance.pick([{}, {}, { all: -10 }, { a: -6, all: "pause" }, { b: 0, c: -20 }]),
    resume: chance.pick(["auto", "auto", "manual"]),
    replaces: chance.percent(80) ? [] : [chance.pick(NAMES)],
    max_pause: chance.pick(LENGTHS),
    resume_within: chance.pick(LENGTHS),
    max_hold: chance.pick([undefined, undefined, "3s"]),
    lease: chance.pick([undefined, undefined, undefined, "2s"]),
    queue_timeout: chance.pick([undefined, "0ms", "3s"]),
    answer_within: chance.pick([undefined, "10s", { heard: "4s" }]),
    ...(isCritical
      ? { critical: true }
      : {
          when_blocked: chance.pick(ways),
          yields_to: chance.percent(70) ? [] : [chance.pick(NAMES)],
        }),
    ...(isExternal
      ? { adapter: { kind: "external" } }
      : {
          idle_timeout: chance.pick([undefined, undefined, undefined, "0ms", "4s"]),
          idle_yields: chance.percent(25),
          after_turn: chance.pick([undefined, undefined, "yield", "archive"]),
          adapter: { kind: "scripted", yields: chance.pick(["hold", "abort"]) },
        }),
  };
  return withoutUndefined(keys) as unknown as JudgedAgent;
}

const withoutUndefined = <T extends object>(value: T) =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined));

function randomTimes(chance: Chance) {
  const between = chance.pick([undefined, ...HOURS]);
  const days = between === undefined || chance.percent(30) ? [chance.pick(DAYS), chance.pick(DAYS)] : undefined;
  return withoutUndefined({ between, days: days && [...new Set(days)], timezone: chance.pick(ZONES) });
}

/** @param hasHours whether it may depend on the time */
function randomRule(name: string, chance: Chance, hasHours: boolean): JudgedRule {
  if (!hasHours) return { name, agents: [chance.pick(NAMES)], when: chance.pick(FLAGS), adjust: chance.pick(ADJUSTS) };
  const { between, timezone } = randomTimes(chance) as { between?: string; timezone: string };
  const hours = between === undefined ? {} : { between, timezone };
  const when = between === undefined || chance.percent(30) ? { when: chance.pick(FLAGS) } : {};
  return { name, agents: [chance.pick(NAMES)], ...hours, ...when, adjust: chance.pick(ADJUSTS) };
}

function randomRestriction(name: string, chance: Chance, hasHours: boolean): JudgedRestriction {
  const when = !hasHours || chance.percent(60) ? chance.pick(FLAGS) : undefined;
  const times = when === undefined || (hasHours && chance.percent(40)) ? randomTimes(chance) : {};
  const rest = { allow: chance.percent(40) ? [] : [chance.pick(NAMES)], others: chance.pick(OTHERS) };
  return withoutUndefined({ name, when, ...times, ...rest }) as unknown as JudgedRestriction;
}
const ADJUSTS = [-35, 35, 30];
const OTHERS = ["pause", "pause", "stop", "finish"];

/** Every claim about two agents of which nothing else is known, and some about one, or about lists. */
const CLAIMS: readonly JudgedClaim[] = [
  ...NAMES.flatMap((one) => [
    { name: `${one} is not rejected`, never: { rejected: one } },
    { name: `${one} is not silenced`, never: { silenced: [one] } },
    ...NAMES.flatMap((other): JudgedClaim[] => [
      { name: `${one} is not rejected while ${other} is heard`, never: { rejected: one, while_heard: [other] } },
      { name: `${one} is not silenced by ${other}`, never: { silenced: one, by: other } },
      { name: `${one} comes back after ${other}`, always: { after: `${other} ends`, eventually: `${one} is heard` } },
    ]),
  ]),
];

/** A random catalogue without faults, and its claims. */
export function randomCatalog(chance: Chance): JudgedCatalog {
  for (;;) {
    const agents = NAMES.slice(0, chance.pick([2, 2, 3])).map((name) => randomAgent(name, chance));
    const kind = chance.pick(["plain", "plain", "flags", "hours"]);
    const hasHours = kind === "hours";
    const priority_rules = ["one", "two"].map((name) => randomRule(name, chance, hasHours));
    const restrictions = ["quiet", "night"].map((name) => randomRestriction(name, chance, hasHours));
    const count = kind === "plain" ? [0] : [0, 1, 1, 2];
    const catalog: JudgedCatalog = {
      agents,
      policy: {
        ties: chance.pick(["reject", "newest"]),
        resume_delay: chance.pick(["0ms", "0ms", "1s"]),
        max_paused: chance.pick([1, 32, 32]),
      },
      priority_rules: priority_rules.slice(0, chance.pick(count)),
      restrictions: restrictions.slice(0, chance.pick(count)),
      claims: CLAIMS.filter((claim) => namesIn(claim).every((name) => agents.some((agent) => agent.name === name))),
    };
    if (readCatalog(JSON.stringify(catalog)).ok) return catalog;
  }
}

const namesIn = ({ never, always }: JudgedClaim): string[] =>
  [...Object.values(never ?? {}).flat(), ...Object.values(always ?? {})].map(subjectOf);

const parsed = new WeakMap<JudgedCatalog, Catalog>();

/** The catalogue as the product reads its file. */
export function toCatalog(catalog: JudgedCatalog): Catalog {
  let known = parsed.get(catalog);
  if (!known) {
    known = catalogOf(JSON.stringify(catalog));
    parsed.set(catalog, known);
  }
  return known;
}

const switched = new WeakMap<JudgedCatalog, Map<string, JudgedCatalog>>();

/** The catalogue with an agent disabled, or enabled again: the same one each time, so that it is read once. */
export function withAgent(catalog: JudgedCatalog, name: string, enabled: boolean): JudgedCatalog {
  const known = switched.get(catalog) ?? new Map<string, JudgedCatalog>();
  switched.set(catalog, known);
  const key = `${name} ${enabled}`;
  let next = known.get(key);
  if (!next) {
    next = { ...catalog, agents: catalog.agents.map((agent) => (agent.name === name ? { ...agent, enabled } : agent)) };
    known.set(key, next);
  }
  return next;
}
