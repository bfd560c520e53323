#!/usr/bin/env -S node --max-semi-space-size=32
// Plain JavaScript that every Node can read: it checks the version before anything newer is loaded.
import { existsSync } from "node:fs";

const NEEDED = 24;
const found = process.versions.node;

if (Number(found.split(".")[0]) < NEEDED) {
  process.stderr.write(
    `interlock: needs Node ${NEEDED} or newer, and this is Node ${found}.\n` +
      `Install it from https://nodejs.org, or run it once: npx -p node@${NEEDED} -c "interlock serve"\n`,
  );
  process.exitCode = 1;
} else {
  // A checkout runs from its sources, a package from what was built of them.
  const source = new URL("../src/cli/main.ts", import.meta.url);
  await import(existsSync(source) ? source.href : new URL("../dist/cli/main.js", import.meta.url).href);
}
