import { PLACEHOLDERS } from "../../actors/floor/sayings.ts";
import type { AgentEntry, Catalog, PriorityRule } from "../../config/catalog/catalog.ts";
import { quote } from "../../config/fault.ts";
import { suggest } from "../../config/nearest.ts";
import { WallClock } from "../../shared/wall-clock.ts";

/** Messages of decisions without a holder: of a grant there may be one, of a resume there is none. */
const WITHOUT_HOLDER = { granted: "there is none if the floor was free", resumed: "there is none" } as const;

/** Settings that do not do what they seem to: rules that never match or go too far, and words that are not replaced. */
export function findIdleSettings(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled);
  return [
    ...findIdleRules(catalog, agents),
    ...findOverlaps(catalog, agents),
    ...findIdleRestrictions(catalog, agents),
    ...findIdleYields(agents),
    ...agents.flatMap(findStrayPlaceholders),
    ...agents.flatMap(findStrayLanguages),
  ];
}

function findIdleRules({ priorityRules }: Catalog, enabled: readonly AgentEntry[]): string[] {
  return priorityRules.flatMap(({ name, agents: named, adjust, between }) => {
    const rule = `the rule ${quote(name)}`;
    if (adjust === 0) return [`${rule} changes nothing: its adjust is 0`];
    const meant = enabled.filter(({ id, critical }) => (named ? named.includes(id) : !critical));
    if (meant.length === 0) {
      return [`${rule} never matches: ${named ? `${named.join(", ")} cannot be used` : "every agent is critical"}`];
    }
    const isAllDay = between && between.fromMinute === between.toMinute;
    return [
      ...(isAllDay ? [`${rule} applies all day: its hours begin and end at the same time`] : []),
      ...(named ? meant : []).flatMap(({ id, priority }) => {
        const value = priority + adjust;
        if (value >= 0 && value <= 100) return [];
        return [`${rule} takes ${id} (${priority}) to ${value}, which counts as ${value < 0 ? 0 : 100}`];
      }),
    ];
  });
}

/** Restrictions under which every agent is heard as without them. */
function findIdleRestrictions({ restrictions }: Catalog, enabled: readonly AgentEntry[]): string[] {
  const idle = restrictions
    .filter(({ allow }) => enabled.every(({ id, critical }) => critical || allow.includes(id)))
    .map(({ name }) => `the restriction ${quote(name)} silences no agent: it allows all that may be used`);
  const always = restrictions
    .filter(({ between, days }) => between?.fromMinute === between?.toMinute && (between ?? days?.length === 7))
    .map(({ name, days }) => `the restriction ${quote(name)} applies all day${days ? ` on ${days.join(", ")}` : ""}`);
  return [...idle, ...always];
}

/** Agents that give way to sessions that wait, although none does. */
function findIdleYields(agents: readonly AgentEntry[]): string[] {
  if (agents.some(({ whenBlocked }) => whenBlocked.includes("queue"))) return [];
  const yielding = agents.filter(({ idleYields }) => idleYields);
  return yielding.map(({ id }) => `${id} has idle_yields, which changes nothing: no agent says when_blocked: queue`);
}

/** Pairs of rules that change the same agent at the same time, by hours or always, under the same flag. */
function findOverlaps({ priorityRules }: Catalog, enabled: readonly AgentEntry[]): string[] {
  const offsets = new Map<string, number>();
  const timed = priorityRules.map((rule) => ({ rule, spans: spansOf(rule, offsets) }));
  return timed.flatMap(({ rule, spans }, index) =>
    timed.slice(index + 1).flatMap(({ rule: other, spans: others }) => {
      if (rule.when !== other.when || (rule.between === undefined) !== (other.between === undefined)) return [];
      const shared = enabled.find((agent) => !agent.critical && isNamed(rule, agent) && isNamed(other, agent));
      if (!shared || !spans.some(([from, to]) => others.some(([start, end]) => from < end && start < to))) return [];
      const sum = rule.adjust + other.adjust;
      const when = rule.between === undefined ? "always apply together" : "overlap in their hours";
      return [
        `the rules ${quote(rule.name)} and ${quote(other.name)} ${when}: ${shared.id} changes by ${sum} then; ` +
          "if that is not meant, let the hours end where the others begin, or name other agents",
      ];
    }),
  );
}

const isNamed = ({ agents }: PriorityRule, { id }: AgentEntry) => agents === undefined || agents.includes(id);

const DAY_MINUTES = 1_440;
/** The day whose hours are used, as for a matrix. */
const DAY = Date.UTC(2026, 0, 5);

/** When a rule applies, in minutes of the day in UTC; a span over midnight is two. */
function spansOf({ between, timezone }: PriorityRule, offsets: Map<string, number>): [from: number, to: number][] {
  if (!between || between.fromMinute === between.toMinute) return [[0, DAY_MINUTES]];
  const offset = offsets.get(timezone) ?? (new WallClock(timezone).shownAt(DAY) - DAY) / 60_000;
  offsets.set(timezone, offset);
  const inUtc = (minute: number) => (minute - offset + DAY_MINUTES) % DAY_MINUTES;
  const [from, to] = [inUtc(between.fromMinute), inUtc(between.toMinute)];
  if (from < to) return [[from, to]];
  return [
    [from, DAY_MINUTES],
    [0, to],
  ];
}

const languages = new Intl.DisplayNames("en", { type: "language", fallback: "none" });

/** Texts of `messages` under a name that is no language: no session chooses them. */
function findStrayLanguages({ id, messages }: AgentEntry): string[] {
  return Object.entries(messages).flatMap(([message, sentence]) => {
    if (typeof sentence !== "object") return [];
    return Object.keys(sentence).flatMap((name, index) => {
      if (languages.of(name) !== undefined) return [];
      const effect = index === 0 ? "only counts as the default" : "is never chosen";
      return [
        `${id}'s message ${message} has a text for ${quote(name)}, which is no language and ${effect}: name it en, zh-CN, …`,
      ];
    });
  });
}

function findStrayPlaceholders({ id, messages }: AgentEntry): string[] {
  return Object.entries(messages).flatMap(([message, sentence]) => {
    const texts = typeof sentence === "string" ? [sentence] : Object.values(sentence ?? {});
    const used = new Set(texts.flatMap((text) => [...text.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => name!)));
    const without = Object.entries(WITHOUT_HOLDER).find(([key]) => key === message)?.[1];
    return [...used].flatMap((name) => {
      const subject = `${id}'s message ${message}`;
      if (!PLACEHOLDERS.some((known) => known === name)) {
        return [
          `${subject} says ${quote(`{${name}}`)} as it is: it is not a placeholder${suggest(name.trim(), PLACEHOLDERS)}`,
        ];
      }
      return without !== undefined && name.startsWith("holder") ? [`${subject} names the holder, but ${without}`] : [];
    });
  });
}
