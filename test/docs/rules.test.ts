import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const page = readFileSync(join(ROOT, "docs/inside/correctness.md"), "utf8");
const RULES = [...page.matchAll(/^\*\*(C\d+)\. /gm)].map(([, rule]) => rule!);

const files = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" }).filter((file) =>
  file.endsWith(".ts"),
);
const texts = files.map((file) => [file, readFileSync(join(ROOT, "src", file), "utf8")] as const);
const rulesIn = (text: string): readonly string[] => text.match(/\bC\d+\b/g) ?? [];

/** The rules that the first line of a file names. */
const headOf = (text: string) => /^\/\/ Rules? (.+) of docs\/inside\/correctness\.md\.\n/.exec(text)?.[1] ?? "";

test("each rule of correctness.md is at the head of the files that keep it, and the code names no other", () => {
  expect(RULES.length).toBeGreaterThan(25);
  const kept = new Set(texts.flatMap(([, text]) => rulesIn(headOf(text))));
  expect(RULES.filter((rule) => !kept.has(rule))).toEqual([]);
  const unknown = texts.flatMap(([file, text]) =>
    rulesIn(text).flatMap((rule) => (RULES.includes(rule) ? [] : `${file}: ${rule}`)),
  );
  expect(unknown).toEqual([]);
});

test("a file whose statements follow a rule names it in its first line", () => {
  const missing = texts.flatMap(([file, text]) => {
    const applied = [...text.matchAll(/^ +\/\/ Rule (C\d+): /gm)].map(([, rule]) => rule!);
    return applied.filter((rule) => !rulesIn(headOf(text)).includes(rule)).map((rule) => `${file}: ${rule}`);
  });
  expect(missing).toEqual([]);
});

test("the invariants of a commit are cited by both that carry it out, and by a test for each", () => {
  const textOf = (folder: string) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.(?:ts|sql)$/.test(file))
      .map((file) => readFileSync(join(ROOT, folder, file), "utf8"))
      .join("\n");
  const invariants = [...textOf("src/store").matchAll(/^ {3}\* - (W\d+): /gm)].map(([, name]) => name!);
  expect(invariants.length).toBeGreaterThan(5);
  for (const folder of ["src/store/sqlite", "migrations/postgres/functions", "test/contract/store"]) {
    const cited = new Set(textOf(folder).match(/\bW\d+\b/g));
    expect([...cited].toSorted(), folder).toEqual(invariants.toSorted());
  }
});
