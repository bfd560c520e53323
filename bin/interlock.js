#!/usr/bin/env -S node --max-semi-space-size=32
import { existsSync } from "node:fs";
import { faultOfNode } from "./needed-node.js";

const fault = faultOfNode();
if (fault !== undefined) {
  process.stderr.write(`interlock: ${fault}\n`);
  process.exitCode = 1;
} else {
  // A checkout runs from its sources, a package from what was built of them.
  const source = new URL("../src/cli/main.ts", import.meta.url);
  await import(existsSync(source) ? source.href : new URL("../dist/cli/main.js", import.meta.url).href);
}
