import { z } from "zod";
import { timezone as Timezone } from "../config/catalog/catalog.ts";
import { duration } from "../config/quantities.ts";
import { EVERY_ZONE } from "../protocol/ids.ts";
import type { WantedSchedule } from "../protocol/internal/command.ts";
import { firstInstantOf, MAX_CRON_LENGTH, parseCron } from "../shared/cron.ts";
import { cleanText } from "../shared/text.ts";

/** The longest message of a scheduled session, in UTF-16 units: the floor has it in memory until its time comes. */
const MAX_CONTENT = 4_096;

/** When a session is to ask for the floor, as requests say it. */
export const scheduleFields = {
  at: z.iso
    .datetime({ offset: true, local: true })
    .optional()
    .meta({ description: "ask then: an RFC 3339 instant, or a local date and time with `timezone`" }),
  in: duration({ min: "1s", max: "366d" }).optional().meta({ description: "ask after this time, as in 10m" }),
  every: z
    .string()
    .max(MAX_CRON_LENGTH)
    .optional()
    .meta({ description: "ask again and again: five fields of cron, on the clocks of `timezone`" }),
  timezone: Timezone.optional().meta({ description: "an IANA time zone, as in Europe/Berlin" }),
  content: z
    .string()
    .min(1)
    .max(MAX_CONTENT)
    .overwrite(cleanText)
    .optional()
    .meta({ description: "the message with which it asks" }),
};
const ScheduleFields = z.object(scheduleFields);
type ScheduleFields = z.infer<typeof ScheduleFields>;

const hasOffset = (at: string): boolean => /(?:Z|[+-]\d\d:\d\d)$/.test(at);

/** Add an issue for each field that does not fit the others. A request for all zones has content without a time. */
export function checkSchedule(context: z.core.ParsePayload<ScheduleFields & { zone?: string | undefined }>): void {
  const { zone, at, in: inMs, every, timezone, content } = context.value;
  const report = (path: keyof ScheduleFields, message: string) =>
    void context.issues.push({ code: "custom", path: [path], message, input: context.value[path] });
  const given = [at, inMs, every].filter((each) => each !== undefined).length;
  if (given > 1) report(every === undefined ? "in" : "every", "is one way of three: give at, in or every");
  if (content !== undefined && given === 0 && zone !== EVERY_ZONE)
    report("content", "needs at, in or every: otherwise send it as a message");
  const fault = every === undefined ? undefined : parseCron(every);
  if (typeof fault === "string") report("every", fault);
  const isLocal = every !== undefined || (at !== undefined && !hasOffset(at));
  if (isLocal && timezone === undefined) report("timezone", "is needed: the time is one of local clocks");
  if (!isLocal && timezone !== undefined) report("timezone", "is for every, and for at without an offset");
}

/** The schedule of a checked request; undefined if it has none. */
export function wantedSchedule(fields: ScheduleFields): WantedSchedule | undefined {
  const { at, in: inMs, every, timezone, content } = fields;
  const rest = content === undefined ? {} : { content };
  if (every !== undefined) return { every, timezone, ...rest };
  if (inMs !== undefined) return { inMs, ...rest };
  if (at === undefined) return undefined;
  return { at: hasOffset(at) ? Date.parse(at) : firstInstantOf(Date.parse(`${at}Z`), timezone!), ...rest };
}
