import { afterAll, beforeAll } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { RedisBuses } from "../../support/servers/redis-buses.ts";
import { REDIS, type RedisServer } from "../../support/servers/redis-server.ts";
import { mailboxBounds } from "./mailbox-bounds.ts";
import { mailboxContract } from "./mailbox-contract.ts";

const openMemory = async () => {
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
};
mailboxContract("the memory bus", openMemory);
mailboxBounds("the memory bus", openMemory);

describeWith([REDIS], "over Redis", (start) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server.stop());

  const openRedis = async () => new RedisBuses([server.url]);
  mailboxContract("Redis", openRedis);
  mailboxBounds("Redis", openRedis);
});
