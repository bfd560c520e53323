import type { Part } from "../agent.ts";

/** Remove the values of secrets from a part. */
export function redactPart(part: Part, redact: (text: string) => string): Part {
  switch (part.type) {
    case "text":
    case "reasoning":
    case "log":
      return { ...part, text: redact(part.text) };
    case "tool-call":
    case "tool-result":
    case "data":
      return redactIn(part, redact) as Part;
    default:
      return part;
  }
}

function redactIn(value: unknown, redact: (text: string) => string): unknown {
  if (typeof value === "string") return redact(value);
  if (Array.isArray(value)) return value.map((one) => redactIn(one, redact));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, redactIn(one, redact)]));
}

/** The size of a part in the queue, in UTF-16 units. */
export function weightOf(part: Part): number {
  return "text" in part ? part.text.length + 64 : JSON.stringify(part).length;
}
