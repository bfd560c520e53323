import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { withEscapes } from "../../../src/system/log.ts";

test("control characters from outside reach neither the log nor a terminal, and the log's JSON has them as escapes", async () => {
  const nasty = "a\u009b2Jb\u007fc\u001b[2Jd\\\\u001b";
  const log = JSON.stringify(new URL("../../../src/system/log.ts", import.meta.url).href);
  const script = `const { createLog, STDOUT } = await import(${log});
    createLog("info").info({ agentId: ${JSON.stringify(nasty)} }, "it came");
    STDOUT.write(${JSON.stringify(nasty.replace("\u001b", ""))});`;
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  expect((stderr + stdout).replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
  expect(JSON.parse(stderr).agentId).toBe(nasty);
  // What a terminal gets is made of the parsed line.
  const shown = JSON.parse(withEscapes(JSON.stringify({ agentId: nasty }))).agentId as string;
  expect(shown).toBe(nasty.replace("\u001b", "\\u001b"));
});
