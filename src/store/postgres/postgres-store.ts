import { AppError } from "../../protocol/errors.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { Meta } from "../meta.ts";
import { commonReads } from "../reads.ts";
import { postgresHits } from "../search-words.ts";
import type { CommitOutcome, Store } from "../store.ts";
import { CommitQueue } from "./commit-queue.ts";
import { PostgresPool, poolConfig } from "./connections/connection-pool.ts";
import { readAddress } from "./connections/database-address.ts";
import { type NodeLabel, warnOfLoneNodes } from "./connections/node-label.ts";
import { refuseMovingPooler } from "./connections/pooler.ts";
import { type FoundStore, type LostCommits, StoreIdentity } from "./connections/store-identity.ts";
import { byFloor, FloorCommit } from "./floor-commit.ts";
import { FloorQueues } from "./floor-queues.ts";
import { noticeQueries } from "./notice-queries.ts";
import { pruneQueries } from "./prune-queries.ts";
import { prepareDatabase } from "./schema.ts";
import { smallWriter } from "./small-writer.ts";
import { isServerAnswer, reasonOf } from "./sql-state.ts";
import { stagedQueries } from "./staged-queries.ts";
import { stateQueries } from "./state-queries.ts";
import { viewQueries } from "./view-queries.ts";

/** Connections of one node; further statements wait. By default a server takes 100, for all nodes together. */
const CONNECTIONS = 16;
/** How often the server's time is read. The quickest answer is the most precise one. */
const TIME_SAMPLES = 3;

export interface PostgresOptions {
  /** For example `postgres://user:password@host:5432/database`. The driver defines further parameters. */
  url: string;
  clock: Clock;
  log: Logger;
  /** Which node opens it. Absent: it is not compared with the others. */
  node?: NodeLabel;
  /** Default: 16. */
  connections?: number | undefined;
  /** What to do when the database lacks commits that this node acknowledged. Default: `stop`. */
  lostCommits?: LostCommits;
  /** Called once when the store has a new epoch because it lacked commits, so that this node should open it again. */
  onNewEpoch?: () => void;
}

export interface PostgresStore extends Store {
  /**
   * How far the server's clock is ahead of the given one, in ms; negative if it is behind. All nodes of a store use the
   * server's time (rule C9). The error is at most half a round trip.
   * @throws AppError `unavailable` also if the store was replaced
   */
  timeOffset(): Promise<number>;
  /**
   * Whether the database has another store than this node opened, none, or one that lacks commits which were
   * acknowledged. Then every call is `unavailable`.
   */
  readonly isReplaced: boolean;
}

/**
 * Open a PostgreSQL store, and create or migrate it if needed. Any number of nodes may have it open.
 * @throws Error with a sentence if the server is unreachable or refuses the login, or the database is not a store of
 *   this version
 */
export async function openPostgresStore(options: PostgresOptions): Promise<PostgresStore> {
  const { url, clock, log, node, connections = CONNECTIONS, lostCommits = "stop", onNewEpoch = () => {} } = options;
  const address = await readAddress(url, node);
  const client = await address.connect();
  try {
    await refuseMovingPooler(client, address);
    if (node) await warnOfLoneNodes(client, node, log);
    const meta = await prepareDatabase(client, { name: address.name, now: clock.now(), lostCommits, log });
    const identity = new StoreIdentity({ epoch: meta.epoch, lostCommits, onNewEpoch });
    const pool = address.makePool({ ...poolConfig(identity), max: connections });
    return storeOn(new PostgresPool(pool, identity, address.name, clock, log), meta, identity, clock);
  } catch (error) {
    throw isServerAnswer(error) ? new Error(`${address.name} could not be prepared: ${reasonOf(error)}`) : error;
  } finally {
    await client.end();
  }
}

function storeOn(pool: PostgresPool, { epoch, secret }: Meta, identity: StoreIdentity, clock: Clock): PostgresStore {
  const queues = new FloorQueues();
  const commits = new CommitQueue(new FloorCommit(pool), clock);
  const { now, ...state } = stateQueries(pool);
  let isClosed = false;

  /** A store may get another epoch while connections to it are open. */
  const compare = (found: FoundStore) => {
    try {
      identity.compare(found);
    } catch (error) {
      throw new AppError("unavailable", undefined, { cause: error });
    }
  };

  return {
    ...state,
    ...viewQueries(pool),
    ...commonReads(pool, postgresHits),
    ...smallWriter(pool),
    ...stagedQueries(pool),
    ...pruneQueries(pool),
    ...noticeQueries(pool),
    epoch,
    secret,
    get isReplaced() {
      return identity.isReplaced;
    },

    async commit(change) {
      if (isClosed) throw new AppError("unavailable", "the store is closed");
      const changes = change.along ? [change, change.along].toSorted(byFloor) : [change];
      // A floor's turn is waited for in the order of the floors, so that two such commits never wait for each other.
      const commit = changes.reduceRight<() => Promise<CommitOutcome>>(
        (next, { floorId }) =>
          () =>
            queues.run(floorId, next),
        () => commits.commit(change),
      );
      const outcome = await commit();
      if (outcome === "committed")
        for (const { floorId, expected } of changes) identity.committed(floorId, expected + 1);
      return outcome;
    },
    async timeOffset() {
      let best = { offset: 0, tripMs: Number.POSITIVE_INFINITY };
      for (let sample = 0; sample < TIME_SAMPLES; sample++) {
        const before = clock.now();
        const { now: there, ...found } = await now();
        compare(found);
        const tripMs = clock.now() - before;
        if (tripMs < best.tripMs) best = { offset: Math.round(there - before - tripMs / 2), tripMs };
      }
      return best.offset;
    },

    /** Finish pending statements and refuse new ones as `unavailable`. Further calls do nothing. */
    async close() {
      isClosed = true;
      await queues.emptied();
      await pool.close();
    },
  };
}
