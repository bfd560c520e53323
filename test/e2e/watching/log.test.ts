import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
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
