import { onTestFinished } from "vitest";
import type { Bus } from "../../../src/bus/bus.ts";
import { createGateway, type Gateway } from "../../../src/gateway/gateway.ts";
import type { Unanswered } from "../../../src/gateway/streams/silent-peers.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { Store } from "../../../src/store/store.ts";
import { EXAMPLE_AGENTS, makeCatalog } from "../catalogs/catalog.ts";
import { KeptLog } from "../stores/sqlite-place.ts";

export interface GatewayStage {
  gateway: Gateway;
  url: string;
  log: KeptLog;
  /** Readers that were cut off because they did not read. */
  cuts: () => number;
}

/** A gateway without a host: it serves streams, but no commands. */
export async function openGateway(parts: {
  store: Store;
  bus: Bus;
  clock: Clock;
  stopwatch?: Clock;
  unanswered?: () => Promise<Unanswered>;
}): Promise<GatewayStage> {
  const log = new KeptLog();
  const catalog = makeCatalog(EXAMPLE_AGENTS);
  let ids = 0;
  let cuts = 0;
  const gateway = createGateway({
    stopwatch: parts.clock,
    ...parts,
    send: () => Promise.reject(new AppError("unavailable")),
    newId: () => `id_${String(ids++).padStart(9, "0")}`,
    random: () => 0.5,
    catalog: () => catalog,
    definitions: { all: () => [], file: () => catalog, refresh: async () => {}, announce: async () => {} },
    catalogStatus: () => ({ hash: catalog.hash, loadedAt: 0 }),
    isAvailable: () => true,
    missing: () => [],
    metrics: async () => ({ contentType: "text/plain", text: "" }),
    absentRoles: () => [],
    callNodes: async () => [],
    version: "0.0.0",
    log,
    origin: { host: "127.0.0.1", hosts: [], origins: [] },
    proxies: [],
    addressConnections: 2_048,
    maxBodyBytes: 65_536,
    commandDeadlineMs: 5_000,
    onCut: () => {
      cuts += 1;
    },
  });
  const { port } = await gateway.listen("127.0.0.1", 0);
  let isClosed = false;
  onTestFinished(async () => {
    if (isClosed) return;
    isClosed = true;
    gateway.streams.stop();
    await gateway.close(0);
  });
  return { gateway, url: `http://127.0.0.1:${port}`, log, cuts: () => cuts };
}
