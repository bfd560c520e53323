import { MemoryBus } from "../../src/bus/memory-bus.ts";
import { busContract } from "./bus-contract.ts";

busContract("memory", async () => {
  // One process, one bus: every node of it has the same.
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
});
