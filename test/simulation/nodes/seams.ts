import type { ServerResponse } from "node:http";
import type { Bus } from "../../../src/bus/bus.ts";
import type { Dispatch } from "../../../src/cluster/mailbox.ts";
import type { StoreWatch } from "../../../src/cluster/store-watch.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { Store } from "../../../src/store/store.ts";
import { DatabaseTime } from "../../../src/system/database-time.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";

export type Ask = (envelope: Envelope) => Promise<Reply>;

/**
 * The places at which a node is assembled, and at which a fault can be planted. Each gets the sound part and returns a
 * replacement.
 */
export interface Seams {
  openStore(): MemoryStore;
  /** How a process judges comparisons with the database's clock, from the first one on. */
  databaseTime(offsetMs: number): DatabaseTime;
  hostStore(store: Store): Store;
  hostCatalog(catalog: Catalog): Catalog;
  /** The ids that a host derives for a delivery. */
  hostIds(newId: () => string): () => string;
  storeWatch(watch: StoreWatch): StoreWatch | undefined;
  serve(dispatch: Dispatch, memory: MemoryStore): Dispatch;
  gatewayAsk(ask: Ask, newId: () => string): Ask;
  gatewayBus(bus: Bus): Bus;
  gatewayStore(store: Store): Store;
  /** The position with which the client of a connection reconnects. */
  resumePosition(position: string): string;
  /** The response to which a stream is written. */
  respond(response: ServerResponse): ServerResponse;
}

export const SOUND: Seams = {
  openStore: () => new MemoryStore(),
  databaseTime: (offsetMs) => new DatabaseTime(offsetMs),
  hostStore: (store) => store,
  hostCatalog: (catalog) => catalog,
  hostIds: (newId) => newId,
  storeWatch: (watch) => watch,
  serve: (serve) => serve,
  gatewayAsk: (ask) => ask,
  gatewayBus: (bus) => bus,
  gatewayStore: (store) => store,
  resumePosition: (position) => position,
  respond: (response) => response,
};
