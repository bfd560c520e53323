import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Plugin } from "vite";

const NAME = "virtual:charts";
const RESOLVED = `\0${NAME}`;
const SCRIPT = fileURLToPath(new URL("draw-charts.ts", import.meta.url));

/**
 * The machines' charts as a module of data, `virtual:charts`. They are laid out while the page is built, because the
 * layout engine is larger than the whole page, and the machines do not change at run time. A separate process draws
 * them, because the machines' modules register schemas for their whole process, as the servers of the tests do, too.
 */
export function charts(): Plugin {
  let drawn: Promise<string> | undefined;
  return {
    name: "interlock-charts",
    resolveId: (id) => (id === NAME ? RESOLVED : undefined),
    async load(id) {
      if (id !== RESOLVED) return undefined;
      drawn ??= promisify(execFile)(process.execPath, [SCRIPT]).then(({ stdout }) => stdout);
      return `export const charts = ${await drawn};`;
    },
  };
}
