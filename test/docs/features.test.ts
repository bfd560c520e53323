import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPage, root, tablesOf } from "./page.ts";

const tables = tablesOf(readPage("docs/inside/features.md"), "", "what", "state", "shown by");

test("every requirement has its row, in order, with its state, and every done one links files of tests", () => {
  expect(tables.map((rows) => rows.length)).toEqual([12, 8, 11, 10, 6, 5, 17, 21, 21]);
  for (const rows of tables) {
    for (const [index, [number, what, state, cell]] of rows.entries()) {
      expect(Number(number), what).toBe(index + 1);
      expect(state, what).toMatch(/^(done$|partly: |not yet)/);
      const files = [...cell!.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => join("docs/inside", link!));
      if (state === "done") expect(files, what).not.toEqual([]);
      expect(
        files.filter((file) => !existsSync(join(root, file))),
        what,
      ).toEqual([]);
    }
  }
});
