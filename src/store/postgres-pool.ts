import type { ClientBase, Pool, PoolClient, PoolConfig } from "pg";
import type { Clock } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Logger } from "../protocol/logger.ts";
import { type Fault, faultOf, isConnectionDoubtful, plainError, reasonOf } from "./postgres-fault.ts";

/** A statement that every connection prepares once, under its name. Without a name it is planned for its values. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** What answers statements, one at a time; each is a transaction of its own. */
export interface Database {
  /**
   * @throws AppError `unavailable`: the outcome is not known
   * @throws StatementRefused nothing was done
   */
  query<Row = unknown>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

/** How long a statement waits for its answer, in ms: after that it is `unavailable`, as all writes are by then (C21). */
const PATIENCE_MS = 2_000;
/** Of that, how long for a connection, made anew or given back by others … */
const CONNECT_MS = 1_750;
/** … and what it has at least when it got one late. */
const LAST_CHANCE_MS = PATIENCE_MS - CONNECT_MS;
/** How long the server goes on with a statement whose answer nobody waits for any more, in ms: rule C2 finds it. */
const ABANDONED_MS = 5_000;
/** How long a commit waits for another one of its floor, in ms. */
const LOCK_MS = 1_000;
/** Idle connections are closed after so long, and any after a while, so that a name may come to mean another server. */
const IDLE_MS = 60_000;
const LIFETIME_S = 1_800;
/** Statements that may wait; more than a database that still moves would ever leave waiting. Over it: `unavailable`. */
const MAX_WAITING = 4_096;

/**
 * Every query here is to find its rows by an index. A connection keeps the plans of what it prepared, and a plan made
 * while a table was small would read it whole when it is large; so what reads whole tables is out of the question.
 * Whether the server takes writes is asked on each new connection: a standby's answers would be stale (rule C1).
 */
const SET_UP = `
  SELECT set_config('search_path', 'interlock', false), set_config('statement_timeout', '${ABANDONED_MS}', false),
    set_config('lock_timeout', '${LOCK_MS}', false), set_config('jit', 'off', false),
    set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false), current_setting('transaction_read_only') AS "readOnly"`;

/** An error that is the statement's own: a key is taken, or it asks for what cannot be. */
export class StatementRefused extends Error {
  readonly fault: Exclude<Fault, "engine">;

  constructor(fault: Exclude<Fault, "engine">, error: unknown) {
    super(reasonOf(error));
    this.name = "StatementRefused";
    this.fault = fault;
  }
}

/** What every pool is made with beside its address and size. */
export const POOL_CONFIG: PoolConfig = {
  connectionTimeoutMillis: CONNECT_MS,
  query_timeout: PATIENCE_MS,
  idleTimeoutMillis: IDLE_MS,
  maxLifetimeSeconds: LIFETIME_S,
  onConnect: setUp,
};

/** A bounded number of connections. Whatever keeps a statement from its answer is `unavailable`, and soon. */
export class PostgresPool implements Database {
  readonly #pool: Pool;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #where: string;
  #underWay = 0;
  readonly #ended = Promise.withResolvers<void>();
  #isClosed = false;
  /** Whether the last statement met an engine's fault: told once, not with every statement. */
  #isAway = false;

  /** `where`: what the log calls the database. */
  constructor(pool: Pool, where: string, clock: Clock, log: Logger) {
    this.#pool = pool;
    this.#clock = clock;
    this.#where = where;
    this.#log = log;
    // A connection that is lost while nobody uses it: the pool has dropped it, and makes another when it is needed.
    pool.on("error", (error) => log.debug({ reason: reasonOf(error) }, "an idle connection to the database was lost"));
    // One that is lost in use is told to whoever uses it; without a listener its event would end the process.
    pool.on("connect", (client) => client.on("error", () => {}));
  }

  async query<Row = unknown>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    if (this.#isClosed) throw new AppError("unavailable", "the store is closed");
    if (this.#underWay >= MAX_WAITING) throw new AppError("unavailable", "too many statements are waiting");
    this.#underWay += 1;
    try {
      return await this.#ask<Row>(statement, values);
    } finally {
      this.#underWay -= 1;
      this.#endIfEmpty();
    }
  }

  /** Take no more; resolves when all that was asked is answered and every connection is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endIfEmpty();
    await this.#ended.promise;
  }

  #endIfEmpty(): void {
    if (!this.#isClosed || this.#underWay > 0 || this.#pool.ending) return;
    this.#pool.end().then(this.#ended.resolve, this.#ended.reject);
  }

  async #ask<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const deadline = this.#clock.now() + PATIENCE_MS;
    let client: PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      throw this.#unavailable(error);
    }
    try {
      const query_timeout = Math.max(deadline - this.#clock.now(), LAST_CHANCE_MS);
      const asked = { ...statement, values: values as unknown[], query_timeout };
      const { rows } = await client.query(asked);
      client.release();
      this.#answered();
      return rows as Row[];
    } catch (error) {
      client.release(isConnectionDoubtful(error));
      const fault = faultOf(error);
      if (fault === "engine") throw this.#unavailable(error);
      this.#answered();
      throw new StatementRefused(fault, error);
    }
  }

  #unavailable(error: unknown): AppError {
    const reason = reasonOf(error);
    if (!this.#isAway) this.#log.error({ database: this.#where, reason }, "the database does not do what it is asked");
    this.#isAway = true;
    return new AppError("unavailable", undefined, { cause: plainError(error) });
  }

  #answered(): void {
    if (this.#isAway) this.#log.info({ database: this.#where }, "the database does what it is asked again");
    this.#isAway = false;
  }
}

async function setUp(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ readOnly: string }>(SET_UP);
  if (rows[0]?.readOnly !== "off") throw new Error("the server takes no writes: it is a standby, or set to read only");
}
