import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { RedisPlace } from "../../support/servers/redis-place.ts";
import { REDIS } from "../../support/servers/redis-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { mailboxContract } from "./mailbox-contract.ts";

mailboxContract("the memory bus", async () => {
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
});

describeWith([REDIS], "over Redis", (start) => {
  const server = serverOf(start);
  mailboxContract("Redis", async () => new RedisPlace(server().url));
});
