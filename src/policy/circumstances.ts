import { effectivePriority, numbersOfAgent } from "../actors/floor/contender.ts";
import { type FloorRules, rulesOf } from "../actors/floor/floor-state.ts";
import type { AgentEntry, Catalog } from "../config/catalog/catalog.ts";
import { hasHours } from "../config/catalog/hours.ts";
import { suggest } from "../config/nearest.ts";
import type { SessionId } from "../protocol/ids.ts";
import { WallClock, WEEKDAYS } from "../shared/wall-clock.ts";

/** When and for whom a matrix is made. Without all of them it has the agents' own priorities, and no rules. */
export interface Circumstances {
  /** Minutes after the midnight of Monday. Undefined: rules and restrictions with hours do not apply. */
  minute?: number | undefined;
  userId?: string | undefined;
  flags?: readonly string[] | undefined;
}

/** The day whose hours are used. A fixed one, so that the same command always prints the same. */
const DAY = Date.UTC(2026, 0, 5);

/** Whether a matrix is made without a time, a user and flags. */
export const hasNone = ({ minute, userId, flags = [] }: Circumstances) =>
  minute === undefined && userId === undefined && flags.length === 0;

/** What decides in these circumstances: the floor's rules, and a session as it competes. */
export function applyCircumstances(catalog: Catalog, circumstances: Circumstances) {
  const { minute, userId, flags: names = [] } = circumstances;
  const flags = Object.fromEntries(names.map((name) => [name, true]));
  const applied =
    minute === undefined ? catalog.priorityRules.filter(({ between }) => !between) : catalog.priorityRules;
  const now = minute === undefined ? DAY : new WallClock(zoneOf(catalog)).instantOf(DAY + minute * 60_000);
  const priorityOf = (agent: AgentEntry) =>
    hasNone(circumstances)
      ? { value: agent.priority, explained: [] }
      : effectivePriority(agent, { ...catalog, priorityRules: applied }, { now, userId, flags });
  const rules: FloorRules = rulesOf(catalog, flags, minute === undefined ? undefined : now);
  return {
    rules,
    priorityOf: (agent: AgentEntry) => priorityOf(agent).value,
    contender: (agent: AgentEntry, sessionId: string, askedAt: number) => ({
      ...numbersOfAgent(agent, priorityOf(agent)),
      sessionId: sessionId as SessionId,
      askedAt,
    }),
  };
}

/** The time zone in which a time is meant: that of the first rule or restriction with hours. */
const zoneOf = ({ priorityRules, restrictions }: Catalog): string =>
  [...priorityRules, ...restrictions].find(hasHours)?.timezone ?? "UTC";

/** The day of a time that is not on the Monday of a matrix, with a space after it. */
const dayOf = (minute: number): string => (minute < 1_440 ? "" : `${WEEKDAYS[Math.floor(minute / 1_440)]} `);

/** The circumstances as a sentence; undefined if there are none. */
export function describe(catalog: Catalog, circumstances: Circumstances): string | undefined {
  if (hasNone(circumstances)) return undefined;
  const { minute, userId, flags = [] } = circumstances;
  const two = (number: number) => String(number).padStart(2, "0");
  const parts = [
    minute === undefined
      ? "without rules that have hours"
      : `at ${dayOf(minute)}${two(Math.floor(minute / 60) % 24)}:${two(minute % 60)} ${zoneOf(catalog)}`,
    ...(userId === undefined ? [] : [`for ${userId}`]),
    ...(flags.length > 0 ? [`with ${flags.join(", ")}`] : []),
  ];
  return `Priorities ${parts.join(", ")}.`;
}

/** Flags and users that the catalogue does not mention, in sentences: with them the matrix would not differ. */
export function findStrays(catalog: Catalog, { userId, flags = [] }: Circumstances): string[] {
  const known = [...new Set([...catalog.priorityRules, ...catalog.restrictions].flatMap(({ when }) => when ?? []))];
  const users = [...catalog.overrides.keys()];
  return [
    ...flags
      .filter((flag) => !known.includes(flag))
      .map((flag) => `no rule and no restriction names the flag ${flag}${suggest(flag, known)}`),
    ...(userId === undefined || users.includes(userId)
      ? []
      : [`no entry of user_preferences names ${userId}${suggest(userId, users)}`]),
  ];
}
