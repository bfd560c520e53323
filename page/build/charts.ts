import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Plugin } from "vite";

const NAME = "virtual:charts";
const RESOLVED = `\0${NAME}`;
const SCRIPT = fileURLToPath(new URL("draw-charts.ts", import.meta.url));

/**
 * The machines' charts as a module of data, `virtual:charts`. They are laid out while the page is built: the layout
 * engine is heavier than the whole page, and a machine does not change while it runs. A process of its own draws them,
 * since the machines' modules register schemas for their whole process, which the tests' servers do too.
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
