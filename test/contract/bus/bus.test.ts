import { afterAll, beforeAll } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { RedisBuses } from "../../support/servers/redis-buses.ts";
import { REDIS, type RedisServer } from "../../support/servers/redis-server.ts";
import { busContract } from "./bus-contract.ts";

busContract("memory", async () => {
  // All nodes of one process share one bus.
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
});

for (const count of [1, 2]) {
  describeWith([REDIS], `over Redis with ${count} servers`, (start) => {
    const servers: RedisServer[] = [];
    beforeAll(async () => {
      for (let index = 0; index < count; index++) servers.push(await start());
    });
    afterAll(async () => {
      for (const server of servers) await server.stop();
    });

    busContract(`Redis × ${count}`, async () => new RedisBuses(servers.map(({ url }) => url)));
  });
}
