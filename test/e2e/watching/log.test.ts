import { execFile } from "node:child_process";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { withEscapes } from "../../../src/log.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";

test("a failure is found in the log by the answer's traceId, and from there by its command, floor and session", async () => {
  const installation = await makeInstallation({ agents: [{ name: "general" }] });
  // Its floor is damaged on purpose.
  installation.leaveUnchecked();
  const first = await installation.start();
  await first.post("/session/create", { id: "broken", userId: "ann", activate: true });
  await first.kill();
  const db = new DatabaseSync(installation.file);
  db.prepare("UPDATE floors SET snapshot = 'no JSON'").run();
  db.close();

  const second = await installation.start();
  const { status, body } = await second.post("/session/broken/pause", {}, "my-key");
  expect(status).toBe(500);
  const lines: object[] = second.log;
  const { traceId } = body as unknown as { traceId: string };
  const asked = lines.filter((line) => "traceId" in line && line.traceId === traceId);
  expect(asked).toEqual([expect.objectContaining({ msg: "a request failed", commandId: "my-key" })]);
  expect(lines).toContainEqual(
    expect.objectContaining({
      msg: "a command broke its floor",
      command: "session.pause",
      commandId: "my-key",
      floorId: "u:ann",
      sessionId: "broken",
    }),
  );
});

test("control characters from outside reach neither the log nor a terminal, and the log's JSON has them as escapes", async () => {
  const nasty = "a\u009b2Jb\u007fc\u001b[2Jd\\\\u001b";
  const log = JSON.stringify(new URL("../../../src/log.ts", import.meta.url).href);
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
