import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import pg from "pg";
import { startOutside } from "../programs/outside-run.ts";
import type { Way } from "../programs/programs.ts";
import type { StartedNeed } from "../programs/suites.ts";
import { freePort } from "./free-port.ts";
import { PostgresProcess } from "./postgres-process.ts";

/** The image for containers. Installed binaries may be older; nothing here needs a newer one. */
const IMAGE = "postgres:17-alpine";
const READY = /database system is ready to accept connections/;

/** A PostgreSQL server with a superuser's URL. */
export interface PostgresServer {
  readonly url: string;
  /** Whether the server and its data are removed after the tests. */
  readonly isOurs: boolean;
  /** A new, empty database. */
  makeDatabase(): Promise<{ url: string; drop: () => Promise<void> }>;
  /** `crash`: without an orderly shutdown. Resolves when it accepts connections again, on the same port. */
  restart(how?: "orderly" | "crash"): Promise<void>;
  stop(): Promise<void>;
}

/** @param isDurable false: commits do not wait for the disk, if the server is our own process */
async function start(way: Way, at: string, isDurable: boolean): Promise<PostgresServer> {
  if (way === "url") {
    const restart = () => Promise.reject(new Error("a server that is not ours is not restarted"));
    return { url: at, isOurs: false, makeDatabase: () => makeDatabase(at), restart, async stop() {} };
  }
  if (way === "container") return await startContainer();
  return serverOf(await PostgresProcess.start(dirname(at), { isDurable }));
}

async function startContainer(): Promise<PostgresServer> {
  const { GenericContainer, Wait } = await import("testcontainers");
  // Fixed, so that the port is the same after a restart.
  const port = await freePort();
  const container = await new GenericContainer(IMAGE)
    .withEnvironment({ POSTGRES_PASSWORD: "postgres" })
    .withCommand(["postgres", "-c", "max_connections=200"])
    .withExposedPorts({ container: 5432, host: port })
    // It prints this once during its setup, and once when it is ready.
    .withWaitStrategy(Wait.forLogMessage(READY, 2))
    .start();
  const url = `postgres://postgres:postgres@${container.getHost()}:${port}/postgres`;
  return {
    url,
    isOurs: true,
    makeDatabase: () => makeDatabase(url),
    async restart(how = "orderly") {
      await container.restart({ timeout: how === "crash" ? 0 : 10_000 });
      await answering(url);
    },
    stop: async () => void (await container.stop()),
  };
}

/** A PostgreSQL for suites that only use it. */
export const POSTGRES: StartedNeed<PostgresServer> = {
  program: "postgres",
  ways: ["url", "container", "machine"],
  start: (way, at) => start(way, at, false),
};

/** One that the suite may stop or configure. */
export const OWN_POSTGRES: StartedNeed<PostgresServer> = { ...POSTGRES, ways: ["container", "machine"] };

/**
 * One for a program that is no test. Its commits are on disk when they are answered. @throws Error if none is available
 */
export function startPostgres(): Promise<PostgresServer> {
  return startOutside({ ...OWN_POSTGRES, start: (way: Way, at: string) => start(way, at, true) });
}

async function makeDatabase(url: string) {
  const name = `interlock_${randomBytes(6).toString("hex")}`;
  await askDatabase(url, `CREATE DATABASE ${name}`);
  const own = new URL(url);
  own.pathname = `/${name}`;
  const drop = async () => void (await askDatabase(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  return { url: own.href, drop };
}

/** A connection of the test's own: a server without room on its disk may take no new one. */
export async function connectDatabase(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  // A server may end at any time: the statement fails, and this error comes in addition.
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** Query the database directly. Rejects if its server ends before the answer. */
export async function askDatabase(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = await connectDatabase(url);
  try {
    const { rows } = await client.query(sql);
    return rows;
  } finally {
    await client.end();
  }
}

/** Resolves when a server answers. Each attempt waits for its connection. */
async function answering(url: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return void (await askDatabase(url, "SELECT 1"));
    } catch (error) {
      if (tries === 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** A server and its process, whose disk the test fills, or which a standby replaces. */
export interface SmallPostgres extends PostgresServer {
  readonly process: PostgresProcess;
}

/** Only a process of this machine: a container that ends loses its disk. */
export const smallPostgres = (diskMib?: number): StartedNeed<SmallPostgres> => ({
  program: "postgres",
  ways: ["machine"],
  async start(_way, at) {
    const process = await PostgresProcess.start(dirname(at), { isDurable: true, ...(diskMib && { diskMib }) });
    return { ...serverOf(process), process };
  },
});

function serverOf(process: PostgresProcess): PostgresServer {
  const { url } = process;
  return {
    url,
    isOurs: true,
    makeDatabase: () => makeDatabase(url),
    restart: (how) => process.restart(how),
    stop: () => process.stop(),
  };
}
