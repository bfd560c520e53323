// Rules C1 and C21 of docs/inside/correctness.md.
import type { ClientBase, Pool, PoolClient, PoolConfig } from "pg";
import { AppError } from "../../../protocol/errors.ts";
import { LogThrottle } from "../../../shared/log-throttle.ts";
import type { Clock } from "../../../shared/ports/clock.ts";
import type { Logger } from "../../../shared/ports/logger.ts";
import type { Statement } from "../../reads.ts";
import {
  hasNoRoomToConnect,
  isConnectionDoubtful,
  isDiskFull,
  isLockTimeout,
  plainError,
  reasonOf,
  type ServerFault,
  serverFaultOf,
} from "../sql-state.ts";
import type { StoreIdentity } from "./store-identity.ts";

/** Runs statements, one at a time, each in a transaction of its own. */
export interface Database {
  /**
   * @param until when the answer is no longer waited for, in ms of the clock. Default: 2 s from now.
   * @throws AppError `unavailable`: the outcome is unknown
   * @throws RowsLocked, StatementRefused: nothing was done
   */
  query<Row = unknown>(statement: Statement, values?: readonly unknown[], until?: number): Promise<Row[]>;
}

/** How long a statement waits for its answer, in ms. After that it is `unavailable`, like all writes by then (C21). */
export const PATIENCE_MS = 2_000;
/** The part of that time for getting a connection, new or returned. */
const CONNECT_MS = 1_750;
/** The least time that a statement has if it got its connection late. */
const LAST_CHANCE_MS = PATIENCE_MS - CONNECT_MS;
/** How long the server continues a statement that nothing waits for, in ms. Rule C2 finds its outcome. */
const ABANDONED_MS = 5_000;
/** How long a commit waits for another one of its floor, in ms. */
const LOCK_MS = 1_000;
/**
 * Idle connections are closed after this time, and all after a while, so that a host name may move to another server.
 */
const IDLE_MS = 60_000;
const LIFETIME_S = 1_800;
/**
 * The database answers again when no statement has failed for this long, in ms: a server without room for more
 * connections fails some statements and answers others.
 */
const STEADY_MS = 1_000;
/**
 * The database takes writes again when its disk has been full for none of them for this long, in ms: a small write may
 * find room on a full disk.
 */
const ROOMY_MS = 60_000;
/** The maximum number of statements that are remembered to have found the disk full, more than the node has. */
const MAX_REFUSED = 256;
/**
 * The maximum number of waiting statements, more than a working database accumulates. Beyond it, statements are
 * `unavailable`.
 */
const MAX_WAITING_STATEMENTS = 4_096;

/**
 * Every query must find its rows by an index. A connection keeps its prepared plans, and a plan made for a small table
 * would scan it when it is large, so sequential scans are disabled. Statements are made for `read committed`: in a
 * stricter isolation, which a database may have by default, they would fail one another. Each new connection checks
 * that the server accepts writes, because a standby's answers would be stale (rule C1), and that it has the store that
 * the node opened.
 */
const SET_UP = `
  SELECT set_config('search_path', 'interlock', false), set_config('statement_timeout', '${ABANDONED_MS}', false),
    set_config('lock_timeout', '${LOCK_MS}', false), set_config('jit', 'off', false),
    set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('default_transaction_isolation', 'read committed', false),
    current_setting('transaction_read_only') AS "readOnly"`;

/** An error of the statement itself: a key exists, or the request is invalid. */
export class StatementRefused extends Error {
  readonly fault: Exclude<ServerFault, "engine">;

  constructor(fault: Exclude<ServerFault, "engine">, error: unknown) {
    super(reasonOf(error));
    this.name = "StatementRefused";
    this.fault = fault;
  }
}

/** Another transaction has kept a lock for longer than a statement waits for it. Nothing was done. */
export class RowsLocked extends AppError {
  constructor(error: unknown) {
    super("unavailable", "Another session of the database holds a lock that this request waits for; repeat it.", {
      cause: plainError(error),
    });
    this.name = "RowsLocked";
  }
}

/** Settings of every pool besides its address and size. */
export function poolConfig(identity: StoreIdentity): PoolConfig {
  return {
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: PATIENCE_MS,
    idleTimeoutMillis: IDLE_MS,
    maxLifetimeSeconds: LIFETIME_S,
    onConnect: (client) => setUp(client, identity),
  };
}

/** A bounded pool of connections. A statement that gets no answer soon fails as `unavailable`, whatever the cause. */
export class PostgresPool implements Database {
  readonly #pool: Pool;
  readonly #identity: StoreIdentity;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #where: string;
  #underWay = 0;
  readonly #ended = Promise.withResolvers<void>();
  #isClosed = false;
  /** Whether statements have had engine errors recently. It is logged once, not for every statement. */
  #isAway = false;
  /** When the last one had, in ms of the clock. */
  #failedAt = 0;
  /** The names of statements that found the disk full, since the log said so. */
  readonly #refused = new Set<string>();
  /** When the last one did, in ms of the clock. */
  #refusedAt = 0;
  readonly #lockNotes = new LogThrottle();
  readonly #roomNotes = new LogThrottle();

  /** @param where the database's name in the log */
  constructor(pool: Pool, identity: StoreIdentity, where: string, clock: Clock, log: Logger) {
    this.#pool = pool;
    this.#identity = identity;
    this.#clock = clock;
    this.#where = where;
    this.#log = log;
    // An idle connection was lost. The pool has dropped it and opens another when needed.
    pool.on("error", (error) => log.debug({ reason: reasonOf(error) }, "an idle connection to the database was lost"));
    // The user of a connection handles its loss. Without a listener the event would end the process.
    pool.on("connect", (client) => client.on("error", () => {}));
  }

  async query<Row = unknown>(
    statement: Statement,
    values: readonly unknown[] = [],
    until = this.#clock.now() + PATIENCE_MS,
  ): Promise<Row[]> {
    if (this.#isClosed) throw new AppError("unavailable", "the store is closed");
    if (this.#underWay >= MAX_WAITING_STATEMENTS) throw new AppError("unavailable", "too many statements are waiting");
    this.#underWay += 1;
    try {
      return await this.#query<Row>(statement, values, until);
    } finally {
      this.#underWay -= 1;
      this.#endIfEmpty();
    }
  }

  /** Refuse new statements; resolves when all accepted ones are answered and every connection is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endIfEmpty();
    await this.#ended.promise;
  }

  #endIfEmpty(): void {
    if (!this.#isClosed || this.#underWay > 0 || this.#pool.ending) return;
    this.#pool.end().then(this.#ended.resolve, this.#ended.reject);
  }

  async #query<Row>(statement: Statement, values: readonly unknown[], until: number): Promise<Row[]> {
    let client: PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      throw hasNoRoomToConnect(error) ? this.#noRoomToConnect(error) : this.#unavailable(error);
    }
    try {
      if (this.#identity.isReplaced) await this.#identity.verify(client);
      const query_timeout = Math.max(until - this.#clock.now(), LAST_CHANCE_MS);
      const timed = { ...statement, values: values as unknown[], query_timeout };
      const { rows } = await client.query(timed);
      client.release();
      this.#answered();
      this.#written(statement);
      return rows as Row[];
    } catch (error) {
      client.release(isConnectionDoubtful(error));
      if (isLockTimeout(error)) throw this.#locked(error);
      if (isDiskFull(error)) throw this.#noRoom(statement, error);
      const fault = serverFaultOf(error);
      if (fault === "engine") throw this.#unavailable(error);
      this.#answered();
      throw new StatementRefused(fault, error);
    }
  }

  #unavailable(error: unknown): AppError {
    const reason = reasonOf(error);
    if (!this.#isAway) this.#log.error({ database: this.#where, reason }, "the database does not answer statements");
    this.#isAway = true;
    this.#failedAt = this.#clock.now();
    return new AppError("unavailable", undefined, { cause: plainError(error) });
  }

  /** The server answers, and another session is in the way. Nodes lock rows for much less time than this. */
  #locked(error: unknown): RowsLocked {
    this.#answered();
    if (this.#lockNotes.isDue(this.#clock.now())) {
      const facts = { database: this.#where, reason: reasonOf(error) };
      this.#log.warn(facts, "another session of the database holds a lock that statements of this node wait for");
    }
    return new RowsLocked(error);
  }

  /** The server answers: reads, and writes that need no more room. */
  #noRoom({ name, text }: Statement, error: unknown): AppError {
    this.#answered();
    const facts = { database: this.#where, reason: reasonOf(error) };
    if (this.#refused.size === 0) this.#log.error(facts, "the database refuses writes");
    if (this.#refused.size < MAX_REFUSED) this.#refused.add(name ?? text);
    this.#refusedAt = this.#clock.now();
    return new AppError("unavailable", undefined, { cause: plainError(error) });
  }

  /** The server answers on the connections that it has. */
  #noRoomToConnect(error: unknown): AppError {
    const facts = { database: this.#where, reason: reasonOf(error) };
    if (this.#roomNotes.isDue(this.#clock.now())) {
      this.#log.error(facts, "the database refuses new connections because its disk is full");
    }
    return new AppError("unavailable", undefined, { cause: plainError(error) });
  }

  /** A statement that does not write says nothing about the disk. */
  #written({ name, text }: Statement): void {
    if (this.#refused.size === 0 || this.#clock.now() - this.#refusedAt < ROOMY_MS) return;
    if (!this.#refused.has(name ?? text)) return;
    this.#log.info({ database: this.#where }, "the database takes writes again");
    this.#refused.clear();
  }

  #answered(): void {
    if (!this.#isAway || this.#clock.now() - this.#failedAt < STEADY_MS) return;
    this.#log.info({ database: this.#where }, "the database answers statements again");
    this.#isAway = false;
  }
}

async function setUp(client: ClientBase, identity: StoreIdentity): Promise<void> {
  const { rows } = await client.query<{ readOnly: string }>(SET_UP);
  if (rows[0]?.readOnly !== "off") throw new Error("the server takes no writes: it is a standby, or read-only");
  await identity.verify(client);
}
