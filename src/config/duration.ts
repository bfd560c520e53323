import { z } from "zod";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d{1,12})(ms|s|m|h|d)$/;

/** Milliseconds of `<integer><ms|s|m|h|d>`, or undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}

/** A duration in a file or an environment variable, read as milliseconds. */
export function duration(bound: { max: string }) {
  const maxMs = parseDuration(bound.max)!;
  return z.string().transform((text, context) => {
    const ms = parseDuration(text);
    if (ms !== undefined && ms <= maxMs) return ms;
    const message = ms === undefined ? "a duration is <integer><ms|s|m|h|d>, as in 30s" : `at most ${bound.max}`;
    context.issues.push({ code: "custom", input: text, message });
    return z.NEVER;
  });
}
