import { expect, test } from "vitest";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { askedAt, SCHEDULED, schedule } from "../../support/schedules/scheduled-sessions.ts";

test("a node that is killed before, at and after a session's time lets each ask once", async () => {
  const installation = await makeInstallation(SCHEDULED);
  let node = await installation.start();
  await schedule(node, "before", { in: "3s", content: "nod" });
  await schedule(node, "late", { in: "2s" });
  await schedule(node, "after", { in: "1s" });
  const after = await SessionReader.of(node, "after");
  await after.has("after", "session_transition");
  await node.kill();

  node = await installation.start();
  const before = await SessionReader.of(node, "before");
  await before.has("before", "complete");
  const late = await SessionReader.of(node, "late");
  await late.has("late", "session_transition");
  // At its time, whose commit may have been made or not.
  await schedule(node, "at", { in: "1s", content: "nod" });
  const at = await SessionReader.of(node, "at");
  await at.until(() => at.eventsOf("at", "session_updated").some(({ data }) => data["fired"]));
  await node.kill();

  node = await installation.start();
  const again = await SessionReader.of(node, "at");
  await again.has("at", "complete");
  for (const id of ["before", "late", "after", "at"]) expect([id, await askedAt(node, id)]).toEqual([id, 1]);
});
