import { MemoryBus } from "../../src/bus/memory-bus.ts";
import { mailboxContract } from "./mailbox-contract.ts";

mailboxContract("the memory bus", async () => {
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
});
