import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Part } from "../../../../src/agents/agent.ts";
import { RedactedParts } from "../../../../src/agents/process/redacted-parts.ts";
import { Redactor } from "../../../../src/agents/process/redactor.ts";
import type { AgentRef } from "../../../../src/protocol/message.ts";

const KEY = "sk-very-secret-1234";
const RESULT = { type: "tool-result", toolName: "n", content: KEY, status: "success" } as const;
const redactor = new Redactor([["KEY", KEY]]);

/** The text as readers get it, if it comes in these pieces. */
function streamed(subject: Redactor, pieces: readonly string[]): string {
  let waiting = "";
  let told = "";
  for (const piece of pieces) {
    const { clean, rest } = subject.split(waiting + piece);
    told += clean;
    waiting = rest;
  }
  return told + subject.text(waiting);
}

describe("a redactor", () => {
  test("a redactor replaces a secret in pieces as it replaces a whole one, wherever the text is divided", () => {
    // Few letters, so that secrets begin in texts, repeat and overlap.
    const letters = fc.constantFrom("a", "b", "\n", '"');
    const value = fc.string({ unit: letters, minLength: 8, maxLength: 12 });
    fc.assert(
      fc.property(
        fc.array(value, { minLength: 1, maxLength: 4 }),
        fc.array(fc.oneof(fc.nat(3), fc.string({ unit: letters, maxLength: 9 })), { maxLength: 8 }),
        fc.array(fc.nat(9), { minLength: 1, maxLength: 9 }),
        (values, parts, lengths) => {
          const subject = new Redactor(values.map((one, index) => [`N${index}`, one]));
          const text = parts.map((part) => (typeof part === "string" ? part : (values[part] ?? ""))).join("");
          const pieces: string[] = [];
          for (let at = 0, turn = 0; at < text.length; turn += 1) {
            const length = (lengths[turn % lengths.length] ?? 0) + 1;
            pieces.push(text.slice(at, at + length));
            at += length;
          }
          expect(streamed(subject, pieces)).toBe(subject.text(text));
          for (const one of values) if (one.trim().length >= 8) expect(subject.text(text)).not.toContain(one.trim());
        },
      ),
      { numRuns: 3_000 },
    );
  });

  test("a redactor holds back no more of a text than may begin a secret", () => {
    expect(redactor.split("Nothing to hide.")).toEqual({ clean: "Nothing to hide.", rest: "" });
    expect(redactor.split("It is sk-very")).toEqual({ clean: "It is ", rest: "sk-very" });
    expect(redactor.split("It is sk-very nice")).toEqual({ clean: "It is sk-very nice", rest: "" });
    expect(redactor.split(`${KEY} and s`)).toEqual({ clean: "[KEY] and ", rest: "s" });
    expect(redactor.split("sk-very-secret-123").rest).toHaveLength(KEY.length - 1);
    expect(new Redactor([]).split(KEY)).toEqual({ clean: KEY, rest: "" });
  });

  test("a redactor finds a secret in JSON, in keys, and within a longer secret that does not come", () => {
    const value = 'line one\n"line two"';
    const subject = new Redactor([
      ["PEM", value],
      ["LONG", `<${KEY}>`],
      ["KEY", KEY],
      ["SHORT", "word"],
    ]);
    expect(subject.text(JSON.stringify({ a: value }))).toBe('{"a":"[PEM]"}');
    expect(subject.value({ [KEY]: [{ a: value }, 7, null], word: true })).toEqual({
      "[KEY]": [{ a: "[PEM]" }, 7, null],
      word: true,
    });
    expect(streamed(subject, ["<", KEY, ">"])).toBe("[LONG]");
    expect(streamed(subject, ["<", KEY, " "])).toBe("<[KEY] ");
  });
});

describe("parts without secrets", () => {
  const sub: AgentRef = { kind: "sub", name: "b", depth: 1, path: ["a", "b"], calls: ["call"] };
  const call = (id: string): Part => ({
    type: "tool-call",
    call: { toolCallId: id, function: { name: "n", arguments: KEY } },
  });
  const result = (toolCallId: string): Part => ({ ...RESULT, toolCallId });
  const WHOLE: Part = { type: "message", content: KEY, output: KEY };
  /** The texts of what is told of a part, and the types of what has none. */
  const takenBy = (parts: RedactedParts) => (part: Part) =>
    parts.redact(part).map((one) => ("text" in one ? one.text : one.type));

  test("the pieces of a secret are found in each text by itself, also around parts that end no message", () => {
    const parts = new RedactedParts(redactor);
    const given: Part[] = [
      { type: "text", text: "It is sk-very" },
      { type: "reasoning", text: "He wants sk-" },
      { type: "text", text: "sk-very-", agent: sub },
      { type: "data", name: "chart", data: { [KEY]: KEY } },
      { type: "log", stream: "stdout", text: KEY },
      { type: "reasoning", text: "very-secret-1234!" },
      { type: "text", text: "secret-1234.", agent: sub },
      { type: "text", text: "-secret-1234." },
    ];
    expect([...given.flatMap((part) => parts.redact(part)), ...parts.end()]).toEqual([
      { type: "text", text: "It is " },
      { type: "reasoning", text: "He wants " },
      { type: "data", name: "chart", data: { "[KEY]": "[KEY]" } },
      { type: "log", stream: "stdout", text: "[KEY]" },
      { type: "reasoning", text: "[KEY]!" },
      { type: "text", text: "[KEY].", agent: sub },
      { type: "text", text: "[KEY]." },
    ]);
  });

  test("what may begin a secret is told before the part that ends its message, and at the end", () => {
    const parts = new RedactedParts(redactor);
    const take = takenBy(parts);
    expect(take({ type: "text", text: "one s" })).toEqual(["one "]);
    expect(take({ type: "text", text: "two s", agent: sub })).toEqual(["two "]);
    expect(take(call("other"))).toEqual(["s", "tool-call"]);
    expect(take(result("call"))).toEqual(["s", "tool-result"]);
    expect(take({ type: "text", text: "sk" })).toEqual([]);
    expect(take(WHOLE)).toEqual(["sk", "message"]);
    expect(take({ type: "text", text: "sk" })).toEqual([]);
    expect(parts.end()).toEqual([{ type: "text", text: "sk" }]);
    expect(parts.end()).toEqual([]);
  });

  test("at least half of a secret that tool calls split is hidden, wherever they split it, and other text is told", () => {
    for (let first = 1; first < KEY.length; first += 1) {
      for (let second = first; second < KEY.length; second += 1) {
        const parts = new RedactedParts(redactor);
        const pieces = [`a ${KEY.slice(0, first)}`, KEY.slice(first, second), `${KEY.slice(second)} b`];
        const told = pieces
          .flatMap((text) => [...parts.redact({ type: "text", text }), ...parts.redact(call("c"))])
          .flatMap((part) => (part.type === "text" ? [part.text] : []));
        const all = [...told, ...parts.end().map((part) => (part as { text: string }).text)].join("");
        expect(all.startsWith("a ") && all.endsWith(" b")).toBe(true);
        const shown = all.slice(2, -2).replaceAll("[KEY]", "");
        expect(shown.length * 2).toBeLessThanOrEqual(KEY.length);
        expect(KEY).toContain(shown);
      }
    }
    const parts = new RedactedParts(redactor);
    const take = takenBy(parts);
    expect(take({ type: "text", text: "a sk-v" })).toEqual(["a "]);
    expect(take(call("c"))).toEqual(["sk-v", "tool-call"]);
    expect(take({ type: "text", text: "er" })).toEqual([]);
    expect(take({ type: "text", text: "dant" })).toEqual(["erdant"]);
    expect(take({ type: "text", text: "ery-secret-1234" })).toEqual(["ery-secret-1234"]);
  });

  test("calls, results and whole messages contain no secret", () => {
    const parts = new RedactedParts(redactor);
    const told = [call(KEY), result(KEY), WHOLE].flatMap((part) => parts.redact(part));
    expect(told).toHaveLength(3);
    expect(JSON.stringify(told)).not.toContain(KEY);
  });
});
