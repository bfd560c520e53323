/** The schema of a script for `interlock simulate`. Every key: docs/use/policy.md. */

import { z } from "zod";
import { localText } from "../config/catalog/catalog.ts";
import { explain, explainIssues } from "../config/catalog/explanation.ts";
import { readYaml } from "../config/catalog/yaml-text.ts";
import type { Fault } from "../config/fault.ts";
import { duration } from "../config/quantities.ts";
import { parseYamlFile } from "../config/yaml-file.ts";
import { MAX_CONTENT } from "../protocol/client-message.ts";
import { OUTCOMES, REASONS } from "../protocol/decision.ts";
import { AgentId, Name } from "../protocol/ids.ts";
import { Locale } from "../protocol/locale.ts";
import { MAX_CRON_LENGTH, parseCron } from "../shared/cron.ts";
import type { Weekday } from "../shared/wall-clock.ts";

const CLOCK = /^(?:(mon|tue|wed|thu|fri|sat|sun) )?([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/;

/** A time of day, on a day of the week or on any. */
export interface ClockTime {
  readonly msOfDay: number;
  readonly day: Weekday | undefined;
}

/** A time of day, read as ms since midnight, perhaps after a day of the week. */
const clock = z
  .string({ error: "must be a time of day in quotes, as in '18:05'" })
  .regex(CLOCK, "a time of day, as in 18:05, 18:05:30 or sat 18:05")
  .transform((text): ClockTime => {
    const [, day, hours, minutes, seconds = 0] = CLOCK.exec(text) ?? [];
    const msOfDay = ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1_000;
    return { msOfDay, day: day as Weekday | undefined };
  });

const INSTANT = /^(\d{4}-\d{2}-\d{2}) ([01]\d|2[0-3]):[0-5]\d$/;

/** Whether a day as in 2026-01-05 is one of the calendar. */
const isDay = (text: string): boolean => {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.valueOf()) && date.toISOString().startsWith(text);
};

/** A day with a time, read as ms since 1970 as if it were UTC. */
const instant = z
  .string()
  .regex(INSTANT)
  .refine((text) => isDay(text.slice(0, 10)), "must be a day of the calendar")
  .transform((text) => ({ shown: Date.parse(`${text.replace(" ", "T")}:00Z`) }));

/** An instant of the wall clock: the next time that it is so late, or an instant. */
const clockInstant = z.union([clock, instant]);
export type ClockInstant = z.infer<typeof clockInstant>;

/** The times of a series, on the clocks of the script's time zone. */
const cron = z
  .string()
  .max(MAX_CRON_LENGTH)
  .superRefine((text, context) => {
    const fault = parseCron(text);
    if (typeof fault === "string") context.addIssue({ code: "custom", message: fault });
  });

/** The longest time in a script: simulated years. */
const LONGEST = "3650d";
const length = duration({ max: LONGEST });
/** Longer than an agent's: the second session of an agent may be called `agent-2`. */
const name = z.string().regex(/^[a-z0-9_-]{1,80}$/, "a name of a-z, 0-9, _ and -, at most 80 characters");
const flag = z.string().min(1).max(64);
/** What an expectation shows, for people who see the script played: a text, or one per language. */
const shows = localText(200).optional();

/** A session that is audible: its name, or its name with its level in dB. */
const heardSession = z.union([
  name.transform((each) => ({ name: each, level: undefined as number | undefined })),
  z
    .record(name, z.number().min(-60).max(0))
    .refine((levels) => Object.keys(levels).length === 1, "must be one session with its level")
    .transform((levels) => {
      const [[each, level]] = Object.entries(levels) as [[string, number]];
      return { name: each, level };
    }),
]);

/** What a script expects right after a step. */
const StepExpectation = z.strictObject({
  /** The agent that hears the step's sentence, or that nobody does. */
  agent: AgentId.optional(),
  ignored: z.boolean().optional(),
  /** Of the step's own request. */
  outcome: z.enum(OUTCOMES).optional(),
  reason: z.enum(REASONS).optional(),
  rule: z.int().optional(),
  would_need: localText(500).optional(),
  say: localText(500).optional(),
  /** All sessions that are audible, the front first. */
  heard: z.array(heardSession).max(64).optional(),
  /** Sessions that are there, and not audible. */
  silent: z.array(name).max(64).optional(),
  /** Sessions that have ended. */
  ended: z.array(name).max(64).optional(),
  floor: z.enum(["free", "held", "reserved"]).optional(),
});
export type StepExpectation = z.infer<typeof StepExpectation>;

const range = <T extends z.ZodType<number>>(value: T) =>
  z.union([
    value.transform((each) => ({ atLeast: each as number | undefined, atMost: each as number | undefined })),
    z
      .strictObject({ at_least: value.optional(), at_most: value.optional() })
      .transform(({ at_least, at_most }) => ({ atLeast: at_least, atMost: at_most })),
  ]);
const count = range(z.int().min(0));
const time = range(length as unknown as z.ZodType<number>);

/** What a script expects of the whole play, about one agent's sessions together. */
const PlayExpectation = z.strictObject({
  agent: AgentId,
  shows,
  granted: count.optional(),
  rejected: count.optional(),
  queued: count.optional(),
  /** How long its sessions were audible. */
  heard: time.optional(),
  /** How long its sessions were silent between the first sound and their end. */
  silent: time.optional(),
});
export type PlayExpectation = z.infer<typeof PlayExpectation>;
export type Range = NonNullable<PlayExpectation["heard"]>;

export const SESSION_ACTIONS = [
  "inquires",
  "answers",
  "cancels",
  "resumes",
  "pauses",
  "ends",
  "dies",
  "returns",
  "switches",
  "moves",
] as const;

/** What a step can do: one of them. */
export const ACTIONS = [
  ...(["asks", "says", "hears", "schedules", "what_if"] as const),
  ...SESSION_ACTIONS,
  ...(["set", "clear", "clock", "catalogue", "stop", "disable", "enable", "repeat"] as const),
];

const stepFields = {
  at: clock.optional(),
  after: length.optional(),
  /** A new session of the agent asks for the floor. */
  asks: AgentId.optional(),
  as: name.optional(),
  /** How long the session is there once it is audible; how long the turn takes once it has begun. */
  for: length.optional(),
  locale: Locale.optional(),
  /** A message: a turn of the session, or of a new one of the agent. */
  says: name.optional(),
  /** A sentence of the user, for the agent that `routing` names. */
  hears: localText(MAX_CONTENT).optional(),
  /** What a router agent answers that is asked about it; absent: nothing in time. */
  router: AgentId.optional(),
  /** What a request of the agent would get. It does not ask. */
  what_if: AgentId.optional(),
  /** The turn ends with a failure. */
  fails: z.boolean().optional(),
  /** The turn of the session asks the user a question. It no longer ends by itself. */
  inquires: name.optional(),
  /** The turn of the session ends now; what it has asked is answered before. */
  answers: name.optional(),
  /** Its user cancels the turn of the session, also one that waits. */
  cancels: name.optional(),
  resumes: name.optional(),
  pauses: name.optional(),
  ends: name.optional(),
  dies: name.optional(),
  returns: name.optional(),
  switches: name.optional(),
  to: AgentId.optional(),
  /** A new session of the agent, which asks at its time: in a while, when it is due, or at each time of a series. */
  schedules: AgentId.optional(),
  in: length.optional(),
  due: clockInstant.optional(),
  every: cron.optional(),
  /** It asks with a message, and so begins a turn. */
  turn: z.literal(true).optional(),
  /** The session goes on on the floor of `zone`, or on the one without a zone. */
  moves: name.optional(),
  /** The floor of the step; absent: that of its session, or the one without a zone. */
  zone: name.optional(),
  set: flag.optional(),
  clear: flag.optional(),
  clock: clockInstant.optional(),
  catalogue: z.string().min(1).optional(),
  stop: z.enum(["front", "all"]).optional(),
  disable: AgentId.optional(),
  enable: AgentId.optional(),
  repeat: z.int().min(1).max(100_000).optional(),
  expect: StepExpectation.optional(),
  shows,
};

type Fields = z.infer<z.ZodObject<typeof stepFields>>;
export interface Step extends Fields {
  steps?: Step[] | undefined;
}

const Step: z.ZodType<Step> = z
  .strictObject({
    ...stepFields,
    get steps() {
      return z.array(Step).min(1).max(1_000).optional();
    },
  })
  .superRefine(({ schedules, in: inMs, due, every, turn }, context) => {
    const blame = (message: string) => context.addIssue({ code: "custom", message });
    const times = [inMs, due, every].filter((each) => each !== undefined).length;
    if (times !== (schedules === undefined ? 0 : 1)) blame("needs schedules with one of in, due and every");
    if (turn && schedules === undefined) blame("must not have turn without schedules");
  })
  .superRefine((step, context) => {
    const blame = (message: string) => context.addIssue({ code: "custom", message });
    const actions = ACTIONS.filter((each) => step[each] !== undefined);
    if (actions.length > 1) blame(`must do one thing, not ${actions.join(" and ")}`);
    if (actions.length === 0 && !step.expect && step.at === undefined && step.after === undefined)
      blame(`must do something (${ACTIONS.join(", ")}), expect something or let time pass (at, after)`);
    if (step.at !== undefined && step.after !== undefined) blame("must have at or after, not both");
    if (step.router !== undefined && step.hears === undefined) blame("must not have router without hears");
    if ((step.switches === undefined) !== (step.to === undefined)) blame("needs both switches and to");
    if ((step.repeat === undefined) !== (step.steps === undefined)) blame("needs both repeat and steps");
    if (step.repeat !== undefined && (step.at !== undefined || step.after !== undefined || step.expect)) {
      blame("must not have at, after or expect beside repeat: its steps have them");
    }
  }) as unknown as z.ZodType<Step>;

const DAY = /^\d{4}-\d{2}-\d{2}$/;

const timezone = z.string().refine((zone) => {
  try {
    return Boolean(new Intl.DateTimeFormat("en", { timeZone: zone }));
  } catch {
    return false;
  }
}, "must be an IANA time zone, as in Asia/Shanghai");

const MAX_ZONES = 16;

const Script = z.strictObject({
  title: localText(200).optional(),
  /** What happens, in a line. */
  story: localText(200).optional(),
  /** What agents are called where `interlock drive` plays the script. */
  names: z.record(AgentId, localText(200)).default({}),
  /** A file beside the script, unless the command names one. */
  catalogue: z.string().min(1).optional(),
  user: Name.optional(),
  /** Of the user's further floors. */
  zones: z.array(name).max(MAX_ZONES).default([]),
  day: z
    .string()
    .regex(DAY, "a day, as in 2026-01-05")
    .refine(isDay, "must be a day of the calendar")
    .default("2026-01-05"),
  timezone: timezone.default("UTC"),
  steps: z.array(Step).min(1).max(10_000),
  expect: z.array(PlayExpectation).max(1_000).default([]),
});
export type Script = z.infer<typeof Script>;

export interface ReadScript {
  readonly script: Script;
  /** The line of what is at a path of the file. */
  readonly lineOf: (path: readonly PropertyKey[]) => number;
  /** A fault of what is at a path of the file. */
  readonly faultAt: (path: readonly PropertyKey[], message: string) => Fault;
}

export const MAX_SCRIPT_BYTES = 1_048_576;

/** Parse a script. Returns it, or all its faults at once. */
export function readScript(text: string): ({ ok: true } & ReadScript) | { ok: false; faults: Fault[] } {
  if (Buffer.byteLength(text) > MAX_SCRIPT_BYTES) {
    return { ok: false, faults: [{ line: 1, column: 1, path: "", message: "the file is larger than 1 MiB" }] };
  }
  const parsing = parseYamlFile(text, Script);
  if (!parsing.ok) return parsing;
  const top = { line: 1, column: 1, path: "" };
  const faultAt: ReadScript["faultAt"] = (path, message) =>
    parsing.faultAt(path, "value", message) ?? { ...top, message };
  return { ok: true, script: parsing.file, lineOf: (path) => faultAt(path, "").line, faultAt };
}

/** Parse what is expected of an agent in a whole play, as a line of a script has it. Returns it, or what is wrong. */
export function readExpectation(text: string): { expected: PlayExpectation } | { fault: string } {
  const yaml = readYaml(text);
  const [unreadable] = yaml.faults;
  if (unreadable) return { fault: unreadable.message };
  const parsed = PlayExpectation.safeParse(yaml.value, { error: explain });
  if (parsed.success) return { expected: parsed.data };
  const { path, message } = explainIssues(parsed.error.issues)[0]!;
  return { fault: `${path.join(".")} ${message}`.trim() };
}
