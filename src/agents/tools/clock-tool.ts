import { z } from "zod";
import { defineTool, fail, succeed, type Tool } from "./tool.ts";

const Input = z.strictObject({
  timezone: z.string().min(1).max(64).optional().describe("An IANA time zone, as in Asia/Shanghai. Default: UTC."),
});

/** The tool `clock`: returns the date and time. */
export function createClockTool(now: () => number): Tool {
  return defineTool({
    name: "clock",
    description: "The current date, time and day of the week.",
    input: Input,
    isConfirmed: false,
    timeoutMs: undefined,
    async run({ timezone = "UTC" }) {
      const at = now();
      try {
        const local = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long", timeZone: timezone });
        return succeed(JSON.stringify({ utc: new Date(at).toISOString(), local: local.format(at), timezone }));
      } catch {
        return fail(`There is no time zone ${timezone}.`);
      }
    },
  });
}
