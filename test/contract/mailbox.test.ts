import { afterAll, beforeAll } from "vitest";
import { MemoryBus } from "../../src/bus/memory-bus.ts";
import { RedisBuses } from "../support/servers/redis-buses.ts";
import { type RedisServer, redis } from "../support/servers/redis-server.ts";
import { chooseServer, describeWith } from "../support/servers/server-choice.ts";
import { mailboxContract } from "./mailbox-contract.ts";

mailboxContract("the memory bus", async () => {
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
});

describeWith(redis, await chooseServer(redis), "over Redis", (start) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server.stop());

  mailboxContract("Redis", async () => new RedisBuses([server.url]));
});
