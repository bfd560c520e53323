import { test } from "vitest";

/** In place of tests that cannot run here: a skip that says so by name, or a failure where `CI` is set. */
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
