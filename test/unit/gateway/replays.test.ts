import { expect, test, vi } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import type { Store } from "../../../src/store/store.ts";
import { openGateway } from "../../support/nodes/gateway-stage.ts";
import { PATIENCE_MS } from "../../support/runner/patience.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";
import { withMethods } from "../../support/stores/temporary-store.ts";

const YAML = { "Content-Type": "application/yaml" };

/** A gateway whose store does not answer until the test says so. */
async function openHeld() {
  const answers = Promise.withResolvers<void>();
  let reads = 0;
  const readFloorLogBack = async () => {
    reads += 1;
    await answers.promise;
    return { entries: [], head: 0, lowWater: 0 };
  };
  const store = withMethods(new MemoryStore() as Store, { readFloorLogBack });
  const clock = new VirtualClock();
  const { url } = await openGateway({ store, bus: new MemoryBus(), clock });
  const replay = async (init: RequestInit = {}) => {
    const body = "agents: [{ name: phone }]";
    const answer = await fetch(`${url}/floor/u%3Aann/replay`, { method: "POST", headers: YAML, body, ...init });
    const { errorCode } = (await answer.json()) as { errorCode?: string };
    return `${answer.status} ${errorCode ?? "played"}`;
  };
  const isReading = (count = 1) => vi.waitUntil(() => reads === count, { timeout: PATIENCE_MS });
  return { clock, replay, isReading, answers };
}

test("a node plays one log at a time", async () => {
  const { replay, isReading, answers } = await openHeld();
  const first = replay();
  await isReading();
  expect(await replay()).toBe("503 busy");
  answers.resolve();
  expect(await first).toBe("200 played");
  expect(await replay()).toBe("200 played");
});

test("a replay ends when its client hangs up, and the next one begins", async () => {
  const { replay, isReading, answers } = await openHeld();
  const leaving = new AbortController();
  const first = replay({ signal: leaving.signal }).catch(() => "left");
  await isReading();
  leaving.abort();
  expect(await first).toBe("left");
  // The server learns of it a moment later.
  const begun = isReading(2);
  let next = replay();
  while ((await Promise.race([next, begun])) === "503 busy") next = replay();
  answers.resolve();
  expect(await next).toBe("200 played");
});

test("a replay ends after a minute", async () => {
  const { clock, replay, isReading, answers } = await openHeld();
  const first = replay();
  await isReading();
  await clock.advance(60_000);
  expect(await first).toBe("413 too_large");
  answers.resolve();
  expect(await replay()).toBe("200 played");
});
