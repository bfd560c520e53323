import { z } from "zod";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d+)(ms|s|m|h|d)$/;
const FORM = "must be a duration: a whole number and ms, s, m, h or d, as in 30s";

/** Milliseconds of `<integer><ms|s|m|h|d>`, however many, or undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}

/** A schema for a duration in a file or an environment variable, read as milliseconds. `min` defaults to `0ms`. */
export function duration(bound: { min?: string; max: string }) {
  const { min = "0ms", max } = bound;
  const minMs = parseDuration(min)!;
  const maxMs = parseDuration(max)!;
  const text = z.string({ error: ({ input }) => (input === undefined ? undefined : FORM) }).meta({
    pattern: DURATION.source,
    examples: ["30s"],
    description: `From ${min} to ${max}.`,
  });
  return text.transform((text, context) => {
    const ms = parseDuration(text);
    if (ms !== undefined && ms >= minMs && ms <= maxMs) return ms;
    const message = ms === undefined ? FORM : ms < minMs ? `must be at least ${min}` : `must be at most ${max}`;
    context.issues.push({ code: "custom", input: text, message });
    return z.NEVER;
  });
}

const GROUPED = /^\d{1,3}(?:_\d{3})+$/;

/** A schema for a whole number from 1 in a file, also with its digits in groups: `200_000`, which is text in YAML. */
export function quantity(max: number) {
  const number = z.int().min(1).max(max);
  const grouped = z.string().regex(GROUPED, "a whole number, as in 200_000");
  return z.union([number, grouped.transform((text) => Number(text.replaceAll("_", ""))).pipe(number)]);
}

const UNIT_BYTES = { B: 1, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 } as const;
const SIZE = /^(\d+)(B|KiB|MiB|GiB)$/;

/** Bytes of `<integer><B|KiB|MiB|GiB>`, or undefined for anything else. */
function parseSize(text: string): number | undefined {
  const match = SIZE.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_BYTES[match[2] as keyof typeof UNIT_BYTES];
}

/** A schema for an amount of memory in an environment variable, read as bytes. */
export function size({ min, max }: { min: string; max: string }) {
  const [minBytes, maxBytes] = [parseSize(min)!, parseSize(max)!];
  return z.string().transform((text, context) => {
    const bytes = parseSize(text);
    if (bytes !== undefined && bytes >= minBytes && bytes <= maxBytes) return bytes;
    const form = "must be a size: a whole number and B, KiB, MiB or GiB, as in 2MiB";
    const message =
      bytes === undefined ? form : bytes < minBytes ? `must be at least ${min}` : `must be at most ${max}`;
    context.issues.push({ code: "custom", input: text, message });
    return z.NEVER;
  });
}
