import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { root } from "./page.ts";

/** `npm run docs:policy` writes the outputs instead of comparing them. */
const IS_WRITING = process.env["WRITE_OUTPUTS"] === "true";
const PAGES = ["docs/policy.md", "docs/policy.zh.md"].filter((path) => existsSync(join(root, path)));
/** A block with one command, and what it prints. */
const SHOWN = /```console\n\$ interlock ([^\n]*)\n([\s\S]*?)```/g;

function outputOf(args: string): string {
  const env = { ...process.env, NO_COLOR: "1", NODE_OPTIONS: "" };
  const command = [join(root, "src/cli/main.ts"), ...args.split(" ")];
  const { stdout, stderr } = spawnSync(process.execPath, command, { cwd: root, env, encoding: "utf8" });
  return stdout + stderr;
}

describe.each(PAGES)("%s", (path) => {
  const text = readFileSync(join(root, path), "utf8");
  const blocks = [...text.matchAll(SHOWN)].map(([, args, output]) => ({ args: args!, output: output! }));

  test.each(blocks)("shows what interlock $args prints", ({ args, output }) => {
    const printed = outputOf(args);
    if (!IS_WRITING) return expect(output).toBe(printed);
    const page = readFileSync(join(root, path), "utf8");
    writeFileSync(
      join(root, path),
      page.replace(`$ interlock ${args}\n${output}`, () => `$ interlock ${args}\n${printed}`),
    );
  });
});
