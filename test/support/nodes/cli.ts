import { fileURLToPath } from "node:url";
import { inject } from "vitest";

/** The program `interlock` for processes that tests start: built by built-node.ts, or its source. */
export const CLI: string = inject("builtCli") ?? fileURLToPath(new URL("../../../src/cli/main.ts", import.meta.url));
