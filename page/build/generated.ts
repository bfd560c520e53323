import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Plugin } from "vite";

/**
 * A module of data that a script of this folder prints as JSON while the page is built.
 *
 * - `virtual:charts`: the layout engine is larger than the whole page, and the machines do not change at run time.
 * - `virtual:log-schema`: the schemas' library is larger than their data.
 *
 * A separate process runs the script, because its modules register schemas for their whole process, as the servers of
 * the tests do, too.
 * @param name the import; the module has one export, `data`
 */
export function generated(name: string, script: string): Plugin {
  const resolved = `\0${name}`;
  const path = fileURLToPath(new URL(script, import.meta.url));
  let printed: Promise<string> | undefined;
  return {
    name: `interlock-${script}`,
    resolveId: (id) => (id === name ? resolved : undefined),
    async load(id) {
      if (id !== resolved) return undefined;
      printed ??= promisify(execFile)(process.execPath, [path]).then(({ stdout }) => stdout);
      return `export const data = ${await printed};`;
    },
  };
}
