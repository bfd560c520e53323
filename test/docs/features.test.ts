import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPage, root, tablesOf } from "./page.ts";

const page = readPage("docs/features.md");
const tables = tablesOf(page, "", "what", "state", "shown by");

/** The files and the tests that a row names. */
function shownBy(cell: string): { file: string; name: string }[] {
  return [...cell.matchAll(/\[[^\]]+\]\(([^)]+)\): ((?:“[^”]+”(?: · )?)+)/g)].flatMap(([, link, names]) =>
    [...names!.matchAll(/“([^”]+)”/g)].map(([, name]) => ({ file: join("docs", link!), name: name! })),
  );
}

/** Whether a file has a test with this name, in any quotes. A group of tests does not count. */
function hasTest(file: string, name: string): boolean {
  const text = existsSync(join(root, file)) ? readFileSync(join(root, file), "utf8") : "";
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) {
    const before = text.slice(0, at).trimEnd();
    const isQuoted = /["'`]$/.test(text.slice(0, at)) && /^["'`:]/.test(text.slice(at + name.length));
    if (isQuoted && !/\bdescribe(\.each\([^)]*\))?\(\s*["'`]$/.test(before)) return true;
  }
  return false;
}

test("every test that a feature names exists", () => {
  const named = tables.flat().flatMap(([, , , cell]) => shownBy(cell!));
  expect(named.length).toBeGreaterThan(70);
  expect(named.filter(({ file, name }) => !hasTest(file, name))).toEqual([]);
  expect(hasTest("test/architecture.test.ts", "no such test")).toBe(false);
  expect(hasTest("test/architecture.test.ts", "the code")).toBe(false);
});

test("every requirement has its row, in order, with its state, and every done one names tests", () => {
  expect(tables.map((rows) => rows.length)).toEqual([12, 8, 11, 10, 6, 5, 11, 15, 18]);
  for (const rows of tables) {
    for (const [index, [number, what, state, cell]] of rows.entries()) {
      expect(Number(number), what).toBe(index + 1);
      expect(state, what).toMatch(/^(done$|partly: |not yet)/);
      if (state === "done") expect(shownBy(cell!), what).not.toEqual([]);
      // The cell contains nothing that was not read here.
      const links = cell!.match(/\]\(/g) ?? [];
      expect(new Set(shownBy(cell!).map(({ file }) => file)).size, what).toBe(links.length);
    }
  }
});
