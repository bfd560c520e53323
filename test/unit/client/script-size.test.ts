import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { bundleForBrowsers } from "../../support/browsers/client-bundle.ts";

/** KiB, compressed. Raise it only for a reason. */
const LIMITS = [
  ["client/interlock-client", 12.5],
  ["react/react", 6],
] as const;

test.each(LIMITS)("the script of %s is smaller than %d KiB, and contains no validator", async (entry, limit) => {
  const script = await bundleForBrowsers(entry);
  expect(gzipSync(script, { level: 9 }).length / 1_024).toBeLessThan(limit);
  expect(script).not.toMatch(/ZodType|invalid_type/);
});
