import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { test } from "vitest";
import { reportUntested } from "../runner/untested.ts";

/** Prometheus' own checker, from the Debian package `prometheus`. */
const PROGRAM = "promtool";
const isThere = spawnSync(PROGRAM, ["--version"]).status === 0;

/** The output of promtool; `input` is its stdin. */
export async function promtool(args: readonly string[], input = ""): Promise<{ code: number; said: string }> {
  const child = spawn(PROGRAM, args);
  let said = "";
  for (const output of [child.stdout, child.stderr]) output.setEncoding("utf8").on("data", (text) => (said += text));
  child.stdin.end(input);
  const [code] = await once(child, "close");
  return { code, said };
}

/** A test that needs promtool. Without it the test is skipped with a message; where `CI` is set it fails. */
export function testWithPromtool(name: string, run: () => Promise<void>): void {
  if (isThere) return void test(name, run);
  reportUntested(name, "promtool is missing: install Debian's package prometheus");
}
