import { expect, onTestFinished, test, vi } from "vitest";
import type { Bus } from "../../src/bus/bus.ts";
import { MemoryBus } from "../../src/bus/memory-bus.ts";
import { Mailbox } from "../../src/cluster/mailbox.ts";
import { Orchestrator } from "../../src/node/orchestrator.ts";
import type { RunRequest } from "../../src/protocol/internal/run-request.ts";
import { MemoryQueue } from "../../src/queue/memory-queue.ts";
import { newId } from "../../src/system/new-id.ts";
import { SystemClock } from "../../src/system/system-clock.ts";
import { settingsOf } from "../support/catalogs/settings.ts";
import { stillMetrics } from "../support/nodes/still-metrics.ts";
import { FloorWriter } from "../support/stores/floor-writer.ts";
import { KeptLog } from "../support/stores/sqlite-place.ts";
import { openTemporaryStore } from "../support/stores/temporary-store.ts";

test("due run requests are armed again as soon as a bus returns that may have lost them", async () => {
  const clock = new SystemClock();
  const store = await openTemporaryStore(clock);
  const queue = new MemoryQueue(clock);
  let recover = () => {};
  const onRecovered = (listener: () => void) => {
    recover = listener;
    return () => {};
  };
  const bus: Bus = Object.assign(new MemoryBus(), { onRecovered });
  const writer = new FloorWriter(store);
  const run = { id: "wish", kind: "run", floorId: writer.id, sessionId: "s", runId: "r", agentId: "music" };
  await writer.write({ runRequestsAdded: [{ ...run, priority: 20, dueAt: clock.now() } as RunRequest] });
  const added = vi.spyOn(queue, "add");
  const log = new KeptLog();
  const orchestrator = new Orchestrator({
    settings: settingsOf({}),
    deployment: { store, bus, queue, clock, stopwatch: clock, hasOwnTime: true, storeFaults: () => [] },
    catalog: () => Promise.reject(new Error("nobody asks for agents")) as never,
    mailbox: new Mailbox({ bus, clock, newId, nodeId: "alone", topicOf: String }),
    nodeId: "alone",
    log,
    metrics: stillMetrics(),
  });
  onTestFinished(async () => {
    await orchestrator.stop(0);
    await queue.close();
  });
  await orchestrator.start();
  await expect.poll(() => added.mock.calls.map(([entry]) => entry.id)).toEqual(["wish"]);
  recover();
  await expect.poll(() => added.mock.calls.map(([entry]) => entry.id)).toEqual(["wish", "wish"]);
  expect(log.lines).toEqual([]);
});
