import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { SESSIONS, TOLD_CATALOG, ToldReceiver } from "../../support/nodes/told-receiver.ts";

describeClusters("webhooks of several nodes", (servers) => {
  test("a receiver that is gone is left by every node until it is enabled; every node is killed while it sends: no notice is lost or out of order", async () => {
    const told = await ToldReceiver.start();
    const path = await writeTemporary("webhooks.yaml", told.file, onTestFinished);
    const cluster = await Cluster.make(servers, { catalog: TOLD_CATALOG, settings: { INTERLOCK_WEBHOOKS: path } });
    const all = ["gateway", "orchestrator", "worker"] as const;
    let [first, second] = await cluster.startAll(all, all);
    told.leave();
    await told.begin(first);
    for (const node of [first, second]) {
      await told.sing(node);
      await told.expectDisabled(node);
    }
    for (const node of [first, second]) await told.sing(node);
    // A session's first notice may have been on its way when another's was answered.
    expect(told.refused).toBeLessThanOrEqual(SESSIONS.length);
    told.answerAgain();
    await createClient({ baseUrl: second.url }).enableWebhook("told");
    await told.expectAll(first);
    // Both die with a notice of each session under way.
    await told.hold(() => told.sing(second));
    await Promise.all([first.kill(), second.kill()]);
    told.answerAgain();
    [first, second] = await cluster.startAll(all, all);
    // One dies, and the other goes on; then that one, and a third does.
    await told.hold(() => told.sing(second));
    await first.kill();
    told.answerAgain();
    const third = await cluster.start(all);
    await told.sing(third);
    await told.hold(() => told.sing(third));
    await second.kill();
    told.answerAgain();
    expect(await told.expectAll(third)).toBeGreaterThan(told.refused);
    await expect.poll(() => third.metric('interlock_webhook_notices_waiting{webhook="told"}')).toBe(0);
  });
});
