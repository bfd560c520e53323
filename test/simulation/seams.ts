import type { Bus } from "../../src/bus/bus.ts";
import type { Serve } from "../../src/bus/mailbox.ts";
import type { Envelope } from "../../src/protocol/command.ts";
import type { Reply } from "../../src/protocol/reply.ts";
import type { Store } from "../../src/store/store.ts";
import { MemoryStore } from "./memory-store.ts";

export type Ask = (envelope: Envelope) => Promise<Reply>;

/** Where a node is put together, and where a fault can be planted in it. Each gets the sound part and gives back one. */
export interface Seams {
  openStore(): MemoryStore;
  hostStore(store: Store): Store;
  /** Ids that a host makes of a delivery. */
  hostIds(newId: () => string): () => string;
  serve(serve: Serve, memory: MemoryStore): Serve;
  gatewayAsk(ask: Ask, newId: () => string): Ask;
  gatewayBus(bus: Bus): Bus;
}

export const SOUND: Seams = {
  openStore: () => new MemoryStore(),
  hostStore: (store) => store,
  hostIds: (newId) => newId,
  serve: (serve) => serve,
  gatewayAsk: (ask) => ask,
  gatewayBus: (bus) => bus,
};
