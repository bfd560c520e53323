import { fileURLToPath } from "node:url";
import { inject } from "vitest";

/** Benches start processes too, and are no tests. */
const isTest = process.env["VITEST"] !== undefined;

/** Node's flags with which it finds no package of this name. */
export function withoutPackage(name: string): string[] {
  const hooks = `import { registerHooks } from "node:module";
    registerHooks({
      resolve(name, context, next) {
        if (name === ${JSON.stringify(name)}) throw new Error("not found");
        return next(name, context);
      },
    });`;
  return ["--import", `data:text/javascript,${encodeURIComponent(hooks)}`];
}

/** The program `interlock` for processes that tests start: built by built-node.ts, or its source. */
export const CLI: string =
  (isTest ? inject("builtCli") : undefined) ?? fileURLToPath(new URL("../../../src/cli/main.ts", import.meta.url));
