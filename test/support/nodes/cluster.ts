import { afterEach, onTestFinished } from "vitest";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { describeWith } from "../programs/suites.ts";
import { askDatabase, OWN_POSTGRES, POSTGRES, type PostgresServer } from "../servers/postgres-server.ts";
import { REDIS_PROCESS, type RedisOptions, type RedisProcess } from "../servers/redis-server.ts";
import { serverOf } from "../servers/shared-server.ts";
import { KeptLog, StandingClock } from "../stores/sqlite-place.ts";
import { checkStoredFloors } from "../stores/stored-floors-check.ts";
import { type ChildServer, type Installation, makeInstallation } from "./child-server.ts";

const begun: ChildServer[] = [];
/** How much of each log is printed. */
const TOLD = 8_000;

/** The servers that a file's clusters share: one PostgreSQL and one Redis, from the first test to the last. */
export interface ClusterServers {
  postgres: () => PostgresServer;
  redis: () => RedisProcess;
  /** Another Redis, which the test stops. */
  startRedis: (options?: RedisOptions) => Promise<RedisProcess>;
}

/** A suite that needs both servers; `own`: it stops or reconfigures PostgreSQL. Every suite may do so with Redis. */
export function describeClusters(
  name: string,
  suite: (servers: ClusterServers) => void,
  { own = false }: { own?: boolean } = {},
): void {
  describeWith([own ? OWN_POSTGRES : POSTGRES, REDIS_PROCESS], name, (startPostgres, startRedis) => {
    const postgres = serverOf(startPostgres);
    const redis = serverOf(startRedis);
    printLogsOfFailures();
    suite({ postgres, redis, startRedis });
  });
}

/** When a test fails, prints what the nodes of this file logged last. */
export function printLogsOfFailures(): void {
  afterEach(({ task }) => {
    if (task.result?.state === "fail") for (const node of begun) console.error(node.stderr.slice(-TOLD));
  });
}

export type Role = "gateway" | "orchestrator" | "worker";
type Catalog = Parameters<typeof makeInstallation>[0];
type AtEnd = (close: () => Promise<void>) => void;

export interface ClusterOptions {
  catalog: Catalog;
  /** Settings of every node. */
  settings?: Record<string, string>;
  /** Registers a function for the end, last registered first called. Default: the end of the test. */
  atEnd?: AtEnd;
}

/** Nodes in separate processes, over a separate database. All of them end with the test. */
export class Cluster {
  readonly storeUrl: string;
  readonly #installation: Installation;

  private constructor(storeUrl: string, installation: Installation) {
    this.storeUrl = storeUrl;
    this.#installation = installation;
  }

  static async make(
    { postgres, redis: bus }: Pick<ClusterServers, "postgres" | "redis">,
    { catalog, settings, atEnd = onTestFinished }: ClusterOptions,
  ): Promise<Cluster> {
    const { url, drop } = await postgres().makeDatabase();
    atEnd(drop);
    const ports = { clock: new StandingClock(), log: new KeptLog() };
    atEnd(() => checkStoredFloors(openPostgresStore({ url, ...ports }), JSON.stringify(catalog)));
    const shared = { INTERLOCK_STORE: url, INTERLOCK_BUS: bus().url, LOG_LEVEL: "info", ...settings };
    return new Cluster(url, await makeInstallation(catalog, shared, atEnd));
  }

  /** Starts a node. */
  begin(roles: readonly Role[], settings: Record<string, string> = {}): ChildServer {
    const node = this.#installation.begin({ settings: { INTERLOCK_ROLES: roles.join(), ...settings } });
    begun.push(node);
    return node;
  }

  /** Starts a node and waits until it listens. */
  async start(roles: readonly Role[], settings?: Record<string, string>): Promise<ChildServer> {
    const node = this.begin(roles, settings);
    await node.listening();
    return node;
  }

  /** Starts one node per list of roles, together. */
  startAll<const R extends readonly (readonly Role[])[]>(...roles: R): Promise<{ [K in keyof R]: ChildServer }> {
    return Promise.all(roles.map((each) => this.start(each))) as Promise<{ [K in keyof R]: ChildServer }>;
  }

  /** Query the database directly. */
  sql(text: string): Promise<Record<string, unknown>[]> {
    return askDatabase(this.storeUrl, text);
  }
}
