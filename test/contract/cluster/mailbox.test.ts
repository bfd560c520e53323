import { afterAll, beforeAll } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { RedisBuses } from "../../support/servers/redis-buses.ts";
import { type RedisServer, redis } from "../../support/servers/redis-server.ts";
import { chooseServer, describeWith } from "../../support/servers/server-choice.ts";
import { mailboxBounds } from "./mailbox-bounds.ts";
import { mailboxContract } from "./mailbox-contract.ts";

const openMemory = async () => {
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
};
mailboxContract("the memory bus", openMemory);
mailboxBounds("the memory bus", openMemory);

describeWith(redis, await chooseServer(redis), "over Redis", (start) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server.stop());

  const openRedis = async () => new RedisBuses([server.url]);
  mailboxContract("Redis", openRedis);
  mailboxBounds("Redis", openRedis);
});
