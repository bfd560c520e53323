/**
 * A catalogue as its file has it, and what the judge of logs knows of it. Shares no code with `src`: hours are read
 * from the words of `Intl`, not from its numbers.
 */

export interface JudgedAgent {
  readonly name: string;
  readonly priority?: number;
  readonly interruptible?: boolean;
  readonly enabled?: boolean;
  readonly preemption_threshold?: number;
  readonly when_blocked?: string | readonly string[];
  readonly when_preempted?: string;
  readonly beneath?: Readonly<Record<string, number | "pause">>;
  readonly critical?: boolean;
  readonly replaces?: readonly string[];
  readonly yields_to?: readonly string[];
  readonly resume?: string;
  readonly max_hold?: string;
  readonly max_pause?: string;
  readonly idle_yields?: boolean;
  readonly after_turn?: string;
  readonly lease?: string;
  readonly adapter?: { readonly kind: string };
}

interface Timed {
  readonly name: string;
  readonly when?: string;
  readonly between?: string;
  readonly days?: readonly string[];
  readonly timezone?: string;
}

export interface JudgedRule extends Timed {
  readonly agents?: readonly string[];
  readonly adjust: number;
}

export interface JudgedRestriction extends Timed {
  readonly allow?: readonly string[];
  readonly others?: string;
}

export interface JudgedClaim {
  readonly name: string;
  readonly never?: {
    readonly rejected?: string | readonly string[];
    readonly while_heard?: string | readonly string[];
    readonly silenced?: string | readonly string[];
    readonly by?: string | readonly string[];
  };
  readonly always?: { readonly after: string; readonly eventually: string };
}

/** The agent of a sentence such as `phone ends`. */
export const subjectOf = (sentence: string): string => sentence.split(" ", 1)[0]!;

export interface JudgedCatalog {
  readonly agents: readonly JudgedAgent[];
  readonly policy?: { readonly ties?: string; readonly resume_delay?: string; readonly max_paused?: number };
  readonly priority_rules?: readonly JudgedRule[];
  readonly restrictions?: readonly JudgedRestriction[];
  readonly claims?: readonly JudgedClaim[];
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function lengthOf(duration: string): number {
  const [, count, unit] = /^(\d+)([a-z]+)$/.exec(duration)!;
  return Number(count) * UNITS[unit!]!;
}

/** Whether a value of the file is this name, or a list that has it. */
export const isNamed = (names: string | readonly string[], name: string): boolean =>
  typeof names === "string" ? names === name : names.includes(name);

const formats = new Map<string, Intl.DateTimeFormat>();

/** What a clock in this zone says: the day of the week in three letters, and the time as HH:MM. */
export function clockIn(timezone: string, at: number): { day: string; time: string } {
  let format = formats.get(timezone);
  if (!format) {
    const shown = { weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false } as const;
    format = new Intl.DateTimeFormat("en-US", { timeZone: timezone, ...shown });
    formats.set(timezone, format);
  }
  const [, day, hour, minute] = /^(\w{3}),? (\d\d):(\d\d)$/.exec(format.format(at))!;
  return { day: day!.toLowerCase(), time: `${hour === "24" ? "00" : hour}:${minute}` };
}

/** Whether a rule or a restriction applies at this instant, as far as its hours and days say. */
export function isTimeOf({ between, days, timezone = "UTC" }: Timed, at: number): boolean {
  if (between === undefined && days === undefined) return true;
  const { day, time } = clockIn(timezone, at);
  const isOn = (name: string) => days === undefined || days.includes(name);
  if (between === undefined) return isOn(day);
  const [from, to] = between.split("-") as [string, string];
  if (from < to) return time >= from && time < to && isOn(day);
  if (time >= from) return isOn(day);
  // The hours began yesterday: at this time of day a day ago it was another day, whatever the clocks did meanwhile.
  return time < to && isOn(DAYS[(DAYS.indexOf(day) + 6) % 7]!);
}

export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

type Flags = Readonly<Record<string, boolean>>;

const applies = (each: Timed, flags: Flags, at: number): boolean =>
  (each.when === undefined || flags[each.when] === true) && isTimeOf(each, at);

export const restrictionsAt = ({ restrictions = [] }: JudgedCatalog, flags: Flags, at: number): JudgedRestriction[] =>
  restrictions.filter((each) => applies(each, flags, at));

/** The priority with which a session of the agent asks at this instant. */
export function priorityAt(catalog: JudgedCatalog, agent: JudgedAgent, flags: Flags, at: number): number {
  const { priority = 50, critical, name } = agent;
  if (critical) return priority;
  const adjusting = (catalog.priority_rules ?? []).filter(
    (rule) => (rule.agents === undefined || rule.agents.includes(name)) && applies(rule, flags, at),
  );
  const sum = adjusting.reduce((value, { adjust }) => value + adjust, priority);
  return Math.max(0, Math.min(100, sum));
}

/** How much quieter a session of the second agent is beneath one of the first; undefined: it is not heard there. */
export function levelUnder(above: JudgedAgent, below: JudgedAgent): number | undefined {
  if (below.critical) return 0;
  if (below.when_preempted !== "duck") return undefined;
  const { beneath = {} } = above;
  const others = above.name === below.name ? undefined : beneath["all"];
  const level = beneath[below.name] ?? others;
  return level === "pause" ? undefined : level;
}

/** Whether the agents have no key of sessions that are heard together. */
export const isPlain = ({ agents, restrictions = [] }: JudgedCatalog): boolean =>
  restrictions.length === 0 &&
  agents.every(
    ({ beneath, when_preempted, critical, replaces = [] }) =>
      Object.keys(beneath ?? {}).length === 0 && when_preempted !== "duck" && !critical && replaces.length === 0,
  );
