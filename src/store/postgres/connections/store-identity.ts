import type { ClientBase } from "pg";
import type { FloorId } from "../../../protocol/ids.ts";
import { newMeta } from "../../meta.ts";
import { isNoTable } from "../sql-state.ts";

/** The timeline of the server, as in the names of its WAL files. Each promotion begins a new one. */
const TIMELINE = "left(pg_walfile_name(pg_current_wal_lsn()), 8)";
/** The server began a new timeline since a node of this epoch used it last. */
const IS_PROMOTED = `coalesce(timeline LIKE epoch || ':%' AND timeline <> epoch || ':' || ${TIMELINE}, false) AS "isPromoted"`;
export const IDENTITY = `SELECT epoch, secret, lost, ${IS_PROMOTED} FROM interlock.meta`;
/** $1: the epoch. */
export const USE_TIMELINE = `
  UPDATE interlock.meta SET timeline = epoch || ':' || ${TIMELINE}
  WHERE epoch = $1 AND timeline IS DISTINCT FROM epoch || ':' || ${TIMELINE}`;
/**
 * $1, $2: floors with the versions that they have at least. A commit that was lost is one of the last, so the last
 * floors that were committed show it. Floors are never deleted, and their versions only rise.
 */
const FOUND = `
  SELECT epoch, lost, ${IS_PROMOTED}, EXISTS (
    SELECT FROM unnest($1::text[], $2::bigint[]) AS known (id, version)
    LEFT JOIN interlock.floors floor ON floor.id = known.id
    WHERE floor.version IS NULL OR floor.version < known.version
  ) AS "isBehind"
  FROM interlock.meta`;
/** Of several nodes that find it, the first one marks the store. */
const MARK = "UPDATE interlock.meta SET lost = epoch WHERE epoch = $1";
export const GIVE_EPOCH = "UPDATE interlock.meta SET lost = epoch, epoch = $2 WHERE epoch = $1";
/** The floors that were committed last, as many as one connection's first query can look for. */
const MAX_KNOWN = 64;

/** What nodes do when a store lacks commits that they acknowledged: refuse all requests, or give it a new epoch. */
export type LostCommits = "stop" | "new-epoch";

/** What a database says of its store. */
export interface FoundStore {
  epoch: string;
  /** The epoch whose last commits were lost: the present one, or the one before it. */
  lost: string | null;
}

/** What a new connection looks for. */
interface Comparison extends FoundStore {
  isPromoted: boolean;
  isBehind: boolean;
}

export interface StoreIdentityOptions {
  /** The epoch of the store that the node opened. */
  epoch: string;
  lostCommits: LostCommits;
  /** Called once when the store has a new epoch because commits were lost, and nodes are to continue with it. */
  onNewEpoch: () => void;
}

/** The sentence for the operator of a store that lacks commits. */
export const LOST_ADVICE =
  "it lacks commits that were acknowledged, as a standby does that was promoted without them: go back to the server that " +
  "has them, or give the store a new epoch (docs/operate/operations.md, Backup and restore)";

/** The sentence for the operator of a store that may lack commits. */
export const PROMOTED_ADVICE =
  "its server was promoted, or restored, while no node ran, and may lack commits that were acknowledged: give the store a " +
  "new epoch (docs/operate/operations.md, Backup and restore)";

/**
 * Whether connections lead to the store that a node opened. The server at an address may be replaced, its data may be
 * restored from a backup, and a standby may be promoted that lacks the last commits; a node that continued there would
 * mix its floors and positions with others.
 */
export class StoreIdentity {
  readonly #options: StoreIdentityOptions;
  /** Versions of the floors that this node committed last, oldest first. */
  readonly #known = new Map<FloorId, number>();
  #isReplaced = false;
  #isSucceeded = false;

  constructor(options: StoreIdentityOptions) {
    this.#options = options;
  }

  /** Whether the last comparison found another store, none, or one that lacks commits. */
  get isReplaced(): boolean {
    return this.#isReplaced;
  }

  /** Remember a commit. */
  committed(id: FloorId, version: number): void {
    this.#known.delete(id);
    this.#known.set(id, version);
    if (this.#known.size > MAX_KNOWN) this.#known.delete(this.#known.keys().next().value!);
  }

  /**
   * Compare what the database says; undefined: it has no store.
   * @throws Error with a sentence for the operator if it is another store than the node opened, or lacks commits
   */
  compare(found: FoundStore | undefined): void {
    const { epoch, lostCommits, onNewEpoch } = this.#options;
    this.#isReplaced = found?.epoch !== epoch || found.lost === epoch;
    if (!this.#isReplaced) return;
    if (!found) throw new Error("it has no store, but this node opened one: correct its address, or restart the node");
    if (found.epoch === epoch) throw new Error(LOST_ADVICE);
    if (found.lost === epoch && lostCommits === "new-epoch" && !this.#isSucceeded) {
      this.#isSucceeded = true;
      onNewEpoch();
    }
    throw new Error(`it is another store than this node opened (${found.epoch}): restart the node`);
  }

  /**
   * Compare the store that a connection leads to. If it lacks commits of this node, it is marked for the other nodes,
   * or gets a new epoch. If it lacks none, a promotion is noted as seen. @throws Error with a sentence for the operator
   * if it is another one, or lacks commits
   */
  async verify(client: ClientBase): Promise<void> {
    const { epoch, lostCommits } = this.#options;
    const found = await this.#find(client);
    if (found?.epoch !== epoch || found.lost === epoch || !found.isBehind) {
      this.compare(found);
      if (found?.isPromoted) await client.query(USE_TIMELINE, [epoch]);
      return;
    }
    if (lostCommits === "stop") await client.query(MARK, [epoch]);
    else await client.query(GIVE_EPOCH, [epoch, newMeta().epoch]);
    this.compare(await this.#find(client));
  }

  async #find(client: ClientBase): Promise<Comparison | undefined> {
    try {
      const known = [[...this.#known.keys()], [...this.#known.values()]];
      return (await client.query<Comparison>(FOUND, known)).rows[0];
    } catch (error) {
      if (isNoTable(error)) return undefined;
      throw error;
    }
  }
}
