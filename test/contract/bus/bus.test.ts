import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { RedisPlace } from "../../support/servers/redis-place.ts";
import { REDIS } from "../../support/servers/redis-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { busContract } from "./bus-contract.ts";

busContract("memory", async () => {
  // All nodes of one process share one bus.
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
});

describeWith([REDIS], "over Redis", (start) => {
  const [one, other] = [serverOf(start), serverOf(start)];
  busContract("Redis × 1", async () => new RedisPlace(one().url));
  busContract("Redis × 2", async () => new RedisPlace(one().url, other().url));
});
