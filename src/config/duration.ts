import { z } from "zod";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d{1,12})(ms|s|m|h|d)$/;
const FORM = "must be a duration: a whole number and ms, s, m, h or d, as in 30s";

/** Milliseconds of `<integer><ms|s|m|h|d>`, or undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}

/** A duration in a file or an environment variable, read as milliseconds. `min` defaults to nothing at all. */
export function duration(bound: { min?: string; max: string }) {
  const { min = "0ms", max } = bound;
  const minMs = parseDuration(min)!;
  const maxMs = parseDuration(max)!;
  return z.string({ error: ({ input }) => (input === undefined ? undefined : FORM) }).transform((text, context) => {
    const ms = parseDuration(text);
    if (ms !== undefined && ms >= minMs && ms <= maxMs) return ms;
    const message = ms === undefined ? FORM : ms < minMs ? `must be at least ${min}` : `must be at most ${max}`;
    context.issues.push({ code: "custom", input: text, message });
    return z.NEVER;
  });
}
