import fc from "fast-check";
import { expect, test } from "vitest";
import { hasMoreValues } from "../../../src/gateway/http/json-bodies.ts";

/** The values of a parsed JSON text, nested ones included. */
function countValues(value: unknown): number {
  const nested = typeof value === "object" && value !== null ? Object.values(value) : [];
  return nested.reduce((sum: number, each) => sum + countValues(each), 1);
}

const isMore = (text: string, max: number) => hasMoreValues(Buffer.from(text), max);

test("the values of a JSON text are counted from its bytes as they would be after parsing", () => {
  const json = fc.jsonValue({ maxDepth: 4 });
  fc.assert(
    fc.property(json, fc.constantFrom(0, 2), (value, indent) => {
      // Too long to be accepted because of its length only.
      const padding = " ".repeat(2 * countValues(value));
      const text = padding + JSON.stringify(value, null, indent);
      const count = countValues(JSON.parse(text));
      expect([isMore(text, count), isMore(text, count - 1)]).toEqual([false, true]);
    }),
  );
});
