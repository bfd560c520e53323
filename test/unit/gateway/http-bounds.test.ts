import { expect, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { openGateway } from "../../support/nodes/gateway-stage.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";

test("the gateway limits the time that a slow client may take for a request", async () => {
  const store = new MemoryStore();
  const { gateway } = await openGateway({ store, bus: new MemoryBus(), clock: new VirtualClock() });
  const { headersTimeout, requestTimeout, keepAliveTimeout } = gateway.app.server;
  // The time limits for the head of a request, for the whole request, and for the pause between requests.
  expect({ headersTimeout, requestTimeout, keepAliveTimeout }).toEqual({
    headersTimeout: 10_000,
    requestTimeout: 60_000,
    keepAliveTimeout: 72_000,
  });
});
