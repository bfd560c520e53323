import { test } from "vitest";

/** Replaces tests that cannot run here: with a named skip, or with a failure where `CI` is set. */
export function reportUntested(name: string, reason: string): void {
  const title = `${name} (${reason})`;
  if (process.env["CI"]) {
    return void test(title, () => {
      throw new Error(`${name} was not tested: ${reason}`);
    });
  }
  console.warn(`SKIPPED: ${title}`);
  test.skip(title, () => {});
}
