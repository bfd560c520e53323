import { describe, expect, test } from "vitest";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { alarmOf } from "../../../src/protocol/internal/run-request.ts";
import { MemoryQueue } from "../../../src/queue/memory-queue.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { placeOf } from "../../support/servers/redis-place.ts";
import { REDIS } from "../../support/servers/redis-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { queueContract } from "./queue-contract.ts";

queueContract("memory", async () => {
  const clock = new SystemClock();
  const queue = new MemoryQueue(clock);
  return { queue, clock };
});

describeWith([REDIS], "over Redis", (start) => {
  const server = serverOf(start);
  queueContract("BullMQ", async () => {
    const nodes = placeOf(server().url);
    return { queue: await nodes.open(), clock: nodes.clock };
  });
});

describe("the memory queue", () => {
  const alarm = (name: string, dueAt: number) => alarmOf(`u:${name}` as FloorId, dueAt);

  test("the memory queue holds at most ten thousand alarms, and accepts more when one is done", async () => {
    const clock = new VirtualClock();
    const queue = new MemoryQueue(clock);
    for (let count = 0; count < 10_000; count += 1) await queue.add(alarm(`t${count}`, clock.now() + 1_000 + count));
    const further = alarm("further", clock.now());
    await expect(queue.add(further)).rejects.toMatchObject({ code: "unavailable" });
    // An alarm that the queue already has is not added again.
    await queue.add(alarm("t1", clock.now() + 1_001));
    const run = { kind: "run", id: "r", floorId: "u:ann", dueAt: clock.now() + 1_000 } as never;
    // Runs have room of their own.
    await queue.add(run);
    await queue.process("alarm", async () => {}, { concurrency: 1 });
    await clock.advance(1_000);
    await queue.add(further);
    await queue.close();
  });

  test("the memory queue waits by the clock it was given, and leaves no timer when it is closed", async () => {
    const clock = new VirtualClock();
    const queue = new MemoryQueue(clock);
    const fired: string[] = [];
    await queue.process("alarm", async ({ floorId }) => void fired.push(floorId), { concurrency: 1 });
    await queue.add(alarm("soon", clock.now() + 100));
    await queue.add(alarm("later", clock.now() + 200));
    await clock.advance(99);
    expect(fired).toEqual([]);
    await clock.advance(1);
    expect(fired).toEqual(["u:soon"]);
    await queue.close();
    expect(clock.timerCount).toBe(0);
    await clock.advance(1_000);
    expect(fired).toEqual(["u:soon"]);
  });

  test("the memory queue refuses an entry due further ahead than a timer can wait", async () => {
    const clock = new VirtualClock();
    const queue = new MemoryQueue(clock);
    await expect(queue.add(alarm("far", clock.now() + 2 ** 31))).rejects.toThrow(RangeError);
    expect(clock.timerCount).toBe(0);
  });
});
