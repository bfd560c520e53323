import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { compilePattern, isMatch } from "../../../src/config/catalog/pattern.ts";

const MODULE = fileURLToPath(new URL("../../../src/config/catalog/pattern.ts", import.meta.url));
/** Far more than a linear engine needs; a backtracking engine would need years. */
const KILL_MS = 20_000;

/** Whether each pattern matches its text, tested in a process that is killed when it takes too long. */
function findInChild(pairs: readonly (readonly [pattern: string, text: string])[]) {
  const script = `
    import { compilePattern, isMatch } from ${JSON.stringify(MODULE)};
    const found = ${JSON.stringify(pairs)}.map(([pattern, text]) => isMatch(compilePattern(pattern), text));
    process.stdout.write(JSON.stringify(found));`;
  const child = spawnSync(process.execPath, ["--input-type=module", "-e", script], { timeout: KILL_MS });
  return { signal: child.signal, found: child.signal ? undefined : JSON.parse(child.stdout.toString()) };
}

test.each([
  ["导航|navi", "去导航", true],
  ["\\b(hang up|end the call)\\b", "please HANG UP now", true],
  ["^(please )?(cancel|stop|end)\\b", "do stop", false],
  ["[\\u4e00-\\u9fff]", "hello 你", true],
  ["\\p{Script=Han}", "hello", false],
  ["\\p{sc=Han}", "你", true],
  ["\\P{Script=Han}", "你", false],
  ["\\p{L}{3}", "ab1", false],
  ["\\u{1F600}", "so 😀", true],
  ["СТОП", "стоп", true],
  ["^.$", "😀", true],
  ["(?<word>stop|halt)!", "HALT!", true],
])("the pattern %s matches %j as in JavaScript: %j", (source, text, found) => {
  expect(new RegExp(source, "iu").test(text)).toBe(found);
  expect(isMatch(compilePattern(source), text)).toBe(found);
});

test("a pattern matches what JavaScript matches, for any pattern of letters, classes, groups and counts", () => {
  const atom = fc.constantFrom("a", "b", "导", ".", "[ab]", "[^a]", "\\d", "\\w", "\\b", "a|b", "^", "$");
  const { pattern } = fc.letrec<{ pattern: string }>((tie) => ({
    pattern: fc.oneof(
      { maxDepth: 3 },
      atom,
      fc.tuple(tie("pattern"), tie("pattern")).map(([one, other]) => `${one}${other}`),
      fc.tuple(tie("pattern"), fc.constantFrom("*", "+", "?", "{1,3}")).map(([one, count]) => `(?:${one})${count}`),
    ),
  }));
  const text = fc.string({ unit: fc.constantFrom("a", "b", "A", "导", "1", " "), maxLength: 12 });
  fc.assert(
    fc.property(pattern, text, (source, message) => {
      expect(isMatch(compilePattern(source), message)).toBe(new RegExp(source, "iu").test(message));
    }),
  );
});

test("a pattern with nested quantifiers runs in linear time", () => {
  const text = `${"a".repeat(1_000)}!`;
  const patterns = ["(a+)+$", "^(a|a)*$", "(.*a){12}b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?:a?){500}a{500}$"];
  const { signal, found } = findInChild(patterns.map((pattern) => [pattern, text] as const));
  expect(signal).toBeNull();
  expect(found).toEqual([false, false, false, false, false]);
});

test.each([
  ["(", "is not a regular expression: Unterminated group"],
  ["(?=x)", "uses “(?=”, which is not supported"],
  ["(?<!x)a", "uses “(?<!x)a”, which is not supported"],
  ["(a)\\1", "uses “\\1”, which is not supported"],
  ["a{1001}", "uses “{1001}”, which is not supported"],
  ["(?:[a-z]?){1000}(?:[a-z]?){1000}(?:[a-z]?){1000}", "is too large: reduce its repetitions"],
])("the pattern %s is a fault with its reason", (source, reason) => {
  expect(() => compilePattern(source)).toThrow(reason);
});

test("an invalid pattern is reported with its place in the file", () => {
  const text = 'agents:\n  - name: a\n    adapter: { kind: scripted, replies: [{ match: "(?=a)b" }] }\n';
  const reading = readCatalog(text);
  expect(reading).toMatchObject({
    faults: [
      { line: 3, column: 51, path: "agents[0].adapter.replies[0].match", message: expect.stringMatching(/^uses/) },
    ],
  });
});

test("the patterns of an agent's replies are bounded together, because one message is matched against all of them", () => {
  const replies = (count: number) =>
    Array.from({ length: count }, (_, index) => `{ match: "(a${index}){800}", say: hm }`).join();
  const faults = (count: number) => {
    const reading = readCatalog(`agents: [{ name: a, adapter: { kind: scripted, replies: [${replies(count)}] } }]`);
    return reading.ok ? [] : reading.faults.map(({ path, message }) => `${path} ${message}`);
  };
  expect(faults(20)).toEqual([]);
  expect(faults(80)).toEqual([
    "agents[0].adapter.replies has patterns that are too large together: reduce their repetitions",
  ]);
});
