import { expect, onTestFinished, test } from "vitest";
import { writeTemporary } from "../../support/clients/callers.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { TOLD_CATALOG, ToldReceiver } from "../../support/nodes/told-receiver.ts";

test("a node that is killed while it sends, and while nothing answers, loses no notice and no order", async () => {
  const told = await ToldReceiver.start();
  const path = await writeTemporary("webhooks.yaml", told.file, onTestFinished);
  const installation = await makeInstallation(TOLD_CATALOG, { INTERLOCK_WEBHOOKS: path, LOG_LEVEL: "warn" });
  let node = await installation.start();
  await told.begin(node);
  await told.hold(() => told.sing(node));
  await node.kill();
  node = await installation.start();
  await told.sing(node);
  told.answerAgain();
  expect(await told.expectAll(node)).toBeGreaterThan(0);
});
