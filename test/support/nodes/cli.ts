import { fileURLToPath } from "node:url";
import { inject } from "vitest";

/** Benches start processes too, and are no tests. */
const isTest = process.env["VITEST"] !== undefined;

/** The program `interlock` for processes that tests start: built by built-node.ts, or its source. */
export const CLI: string =
  (isTest ? inject("builtCli") : undefined) ?? fileURLToPath(new URL("../../../src/cli/main.ts", import.meta.url));
