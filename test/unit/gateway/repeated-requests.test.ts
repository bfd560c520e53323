import { expect, onTestFinished, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { RepeatedRequests } from "../../../src/doors/repeated-requests.ts";
import type { Identity } from "../../../src/gateway/idempotent-commands.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { openGateway } from "../../support/nodes/gateway-stage.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";

/** Two nodes, whose clients send the same request again and again. */
async function makeNodes() {
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  const nodes = [0, 1].map(() => new RepeatedRequests({ bus, clock, epoch: "e" }));
  onTestFinished(() => {
    for (const node of nodes) node.close();
  });
  await turn();
  let sent = 0;
  const send = async (node: RepeatedRequests, { session = "s", isRetry = false, isKeyed = false } = {}) => {
    const identity = { caller: { id: "ann" }, bodyHash: "hello", commandId: `c${++sent}`, isKeyed };
    const admitted = node.admit(identity as unknown as Identity, { session: session || undefined, isRetry });
    await turn();
    const end = async (how: Parameters<typeof admitted.end>[0]) => {
      admitted.end(how);
      await turn();
    };
    return { command: admitted.identity.commandId, end };
  };
  return { here: nodes[0]!, there: nodes[1]!, bus, clock, send };
}

test("a repeat joins the answer that is under way, or has failed, at another node, until it was whole", async () => {
  const { here, there, send } = await makeNodes();
  const first = await send(here);
  expect((await send(there)).command).toBe("c1");
  expect((await send(there, { session: "another" })).command).toBe("c3");
  expect((await send(there, { isKeyed: true })).command).toBe("c4");
  await first.end("failed");
  const again = await send(there);
  expect(again.command).toBe("c1");
  await again.end("whole");
  expect((await send(here)).command).toBe("c6");
});

test("requests without a session join at another node only if the client says that it repeats", async () => {
  const { here, there, send } = await makeNodes();
  await send(here, { session: "" });
  expect((await send(there, { session: "", isRetry: true })).command).toBe("c1");
  expect((await send(there, { session: "" })).command).toBe("c3");
});

test("an answer is under way as long as its node tells of it", async () => {
  const { here, there, clock, send } = await makeNodes();
  await send(here);
  await clock.advance(60_000);
  expect((await send(there)).command).toBe("c1");
  // The node dies.
  here.close();
  await clock.advance(15_000);
  expect((await send(there)).command).toBe("c1");
  await clock.advance(1);
  expect((await send(there)).command).toBe("c4");
});

test("while the bus is away each node knows its own answers, and nothing waits", async () => {
  const { here, there, bus, send } = await makeNodes();
  bus.goAway();
  await send(here);
  expect((await send(here)).command).toBe("c1");
  expect((await send(there)).command).toBe("c3");
});

test("the time in which a request may be repeated is elapsed time: a clock that is set does not change it", async () => {
  const [clock, stopwatch] = [new VirtualClock(), new VirtualClock()];
  // Its outcome is never known.
  const { url } = await openGateway({ store: new MemoryStore(), bus: new MemoryBus(), clock, stopwatch });
  const body = JSON.stringify({ model: "music", messages: [{ role: "user", content: "hello" }] });
  const ask = async () => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    return ((await answer.json()) as { error: { commandId: string } }).error.commandId;
  };
  const first = await ask();
  await clock.advance(3_600_000);
  expect([first, await ask()]).toEqual([expect.any(String), first]);
  await stopwatch.advance(10_001);
  expect(await ask()).not.toBe(first);
});
