import { afterAll, describe, expect, test } from "vitest";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { metricOf } from "../../support/clients/node-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({}, afterAll);
const read = (line: string) => metricOf(node, line);

describe("a single node", () => {
  test("a single node reports the durations of commits, the bus and waiting runs", async () => {
    const user = new E2eClient(node);
    const { id } = await user.hold("music");
    const stream = await user.follow(id);
    await user.talk(id, "hello");
    await stream.close();
    for (const name of ["commit_seconds", "bus_lag_seconds", "run_wait_seconds", "run_seconds"]) {
      const labels = name === "run_seconds" ? '{agent="music",outcome="done",code=""}' : "";
      await expect.poll(() => read(`interlock_${name}_count${labels}`), { message: name }).toBeGreaterThan(0);
    }
    // The work is done: its durations are in seconds, far below any of these.
    expect(await read("interlock_commit_seconds_sum")).toBeLessThan(5);
    expect(await read("interlock_bus_lag_seconds_sum")).toBeLessThan(5);
  });

  test("a single node owns all partitions at once, waits for no other node, and needs no bus", async () => {
    expect(await read("interlock_partitions_owned")).toBe(256);
    const info =
      /^interlock_node_info\{node="([^"]+)",name="[^"]+:\d+",roles="gateway,orchestrator,worker",version="[\d.]+"\} 1$/m;
    const [, id] = info.exec((await node.get("/metrics")).text)!;
    expect(await read(`interlock_orchestrator_partitions{node="${id}"}`)).toBe(256);
    for (const name of [
      "bus_away",
      "commands_waiting",
      "commands_unanswered",
      "commands_repeated_total",
      "followers_behind_total",
    ]) {
      expect(await read(`interlock_${name}`), name).toBe(0);
    }
  });

  test("a single node reports the delay of its event loop", async () => {
    for (const name of ["nodejs_eventloop_lag_seconds", "nodejs_eventloop_lag_p99_seconds"]) {
      expect(await read(name), name).toBeGreaterThanOrEqual(0);
    }
  });
});
