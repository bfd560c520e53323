import { expect, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { openGateway } from "../../support/gateway-stage.ts";
import { openTemporaryStore } from "../../support/temporary-store.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

test("a client that sends slowly, and clients without number, are bounded", async () => {
  const store = await openTemporaryStore();
  const { gateway } = await openGateway({ store, bus: new MemoryBus(), clock: new VirtualClock() });
  const { maxConnections, headersTimeout, requestTimeout } = gateway.app.server;
  // Streams, and as many again as may come and go beside them; the head of a request, and all of it.
  expect({ maxConnections, headersTimeout, requestTimeout }).toEqual({
    maxConnections: 12_048,
    headersTimeout: 10_000,
    requestTimeout: 60_000,
  });
});
