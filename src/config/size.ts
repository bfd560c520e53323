import { z } from "zod";

const UNIT_BYTES = { B: 1, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 } as const;
const SIZE = /^(\d{1,12})(B|KiB|MiB|GiB)$/;

/** Bytes of `<integer><B|KiB|MiB|GiB>`, or undefined for anything else. */
function parseSize(text: string): number | undefined {
  const match = SIZE.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_BYTES[match[2] as keyof typeof UNIT_BYTES];
}

/** An amount of memory in an environment variable, read as bytes. */
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
