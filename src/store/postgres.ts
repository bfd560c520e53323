import type { Clock } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Logger } from "../protocol/logger.ts";
import { FloorLines } from "./floor-lines.ts";
import type { Meta } from "./meta.ts";
import { readAddress } from "./postgres-address.ts";
import { ChangeWriter } from "./postgres-change.ts";
import { isServerAnswer, reasonOf } from "./postgres-fault.ts";
import { POOL_CONFIG, PostgresPool } from "./postgres-pool.ts";
import { Pruner } from "./postgres-pruner.ts";
import { prepareDatabase } from "./postgres-schema.ts";
import { SessionList } from "./postgres-session-list.ts";
import { SmallWriter } from "./postgres-small-writer.ts";
import { StateReader } from "./postgres-state.ts";
import { ViewReader } from "./postgres-views.ts";
import type { Store } from "./store.ts";

/** Connections of one node; its statements beyond them wait. A server takes 100 as a rule, for all nodes together. */
const CONNECTIONS = 16;
/** How often the server is asked for its time; the quickest answer is the one least in doubt. */
const TIME_SAMPLES = 3;

export interface PostgresOptions {
  /** As in `postgres://user:password@host:5432/database`; what else it may say is the driver's. */
  url: string;
  clock: Clock;
  log: Logger;
  /** Default: 16. */
  connections?: number | undefined;
}

export interface PostgresStore extends Store {
  /**
   * By how many ms the server's clock is ahead of the one given, below 0 when it is behind: the server's is what all
   * nodes of a store go by (rule C9). Wrong by half a round trip at most.
   */
  timeOffset(): Promise<number>;
}

/**
 * Open a PostgreSQL store: made new, or migrated, if need be. Any number of nodes may have it open.
 * @throws Error with a sentence: no server is there, it lets nobody in, or the database is no store for this version
 */
export async function openPostgresStore(options: PostgresOptions): Promise<PostgresStore> {
  const { url, clock, log, connections = CONNECTIONS } = options;
  const address = await readAddress(url);
  const client = await address.connect();
  try {
    const meta = await prepareDatabase(client, address.name, clock.now(), log);
    const pool = address.makePool({ ...POOL_CONFIG, max: connections });
    return storeOn(new PostgresPool(pool, address.name, clock, log), meta, clock);
  } catch (error) {
    throw isServerAnswer(error) ? new Error(`${address.name} could not be prepared: ${reasonOf(error)}`) : error;
  } finally {
    await client.end();
  }
}

function storeOn(pool: PostgresPool, { epoch, secret }: Meta, clock: Clock): PostgresStore {
  const lines = new FloorLines();
  const changes = new ChangeWriter(pool);
  const small = new SmallWriter(pool);
  const pruner = new Pruner(pool);
  const state = new StateReader(pool);
  const views = new ViewReader(pool);
  const list = new SessionList(pool);
  let isClosed = false;

  return {
    epoch,
    secret,

    async commit(change) {
      if (isClosed) throw new AppError("unavailable", "the store is closed");
      return await lines.inLine(change.floorId, () => changes.commit(change));
    },
    saveConnection: (row) => small.saveConnection(row),
    putBlob: (sessionId, blob) => small.putBlob(sessionId, blob),
    shiftEffects: (byMs) => small.shiftEffects(byMs),
    prune: (limits) => pruner.prune(limits),

    loadFloor: (id) => state.loadFloor(id),
    confirm: (id, version) => state.confirm(id, version),
    loadSession: (id) => state.loadSession(id),
    loadDrafts: (id) => state.loadDrafts(id),
    findMessage: (sessionId, id) => state.findMessage(sessionId, id),
    findReceipts: (keys) => state.findReceipts(keys),
    dueEffects: (query) => state.dueEffects(query),
    newestTime: () => state.newestTime(),
    loadConnection: (id) => state.loadConnection(id),
    getBlob: (sessionId, hash) => state.getBlob(sessionId, hash),

    whereIs: (id) => views.whereIs(id),
    viewSession: (id, messages) => views.viewSession(id, messages),
    viewFloor: (id, limits) => views.viewFloor(id, limits),
    listSessions: (query) => list.list(query),
    listMessages: (id, range) => views.listMessages(id, range),
    listLogs: (id, messageId, range) => views.listLogs(id, messageId, range),
    readSessionLog: (id, after, limit) => views.readSessionLog(id, after, limit),
    readFloorLog: (id, after, limit) => views.readFloorLog(id, after, limit),
    heads: (ids) => views.heads(ids),

    async timeOffset() {
      let best = { offset: 0, tripMs: Number.POSITIVE_INFINITY };
      for (let sample = 0; sample < TIME_SAMPLES; sample++) {
        const before = clock.now();
        const there = await state.now();
        const tripMs = clock.now() - before;
        if (tripMs < best.tripMs) best = { offset: Math.round(there - before - tripMs / 2), tripMs };
      }
      return best.offset;
    },

    /** What was asked for before is carried out; what comes after is `unavailable`. Closing twice is closing once. */
    async close() {
      isClosed = true;
      await lines.emptied();
      await pool.close();
    },
  };
}
