import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { delimiter, join } from "node:path";
import pg from "pg";
import { freePort } from "./free-port.ts";
import { PostgresProcess } from "./postgres-process.ts";
import { type ServerKind, startServer } from "./server-choice.ts";

/** The image for containers. Installed binaries may be older; nothing here needs a newer one. */
const IMAGE = "postgres:17-alpine";
const READY = /database system is ready to accept connections/;
/** The folder in which Debian keeps the programs that are not on the PATH. */
const DEBIAN = "/usr/lib/postgresql";

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
const postgresOf = (isDurable: boolean): ServerKind<PostgresServer> => ({
  name: "PostgreSQL",
  variable: "TEST_POSTGRES_URL",

  async at(url) {
    const restart = () => Promise.reject(new Error("a server that is not ours is not restarted"));
    return { url, isOurs: false, makeDatabase: () => makeDatabase(url), restart, async stop() {} };
  },

  async inContainer() {
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
  },

  async findBinaries() {
    const folder = await findFolder();
    if (folder === undefined) return undefined;
    return async () => serverOf(await PostgresProcess.start(folder, { isDurable }));
  },
});

export const POSTGRES = postgresOf(false);

/**
 * A separate server for the caller, found in the order of `server-choice.ts`. Its commits are on disk when they are
 * answered.
 * @throws Error if none is available
 */
export function startPostgres(): Promise<PostgresServer> {
  return startServer(postgresOf(true), { own: true });
}

/** The folder with `initdb` and `postgres`: the newest of Debian's, else one on the PATH. */
async function findFolder(): Promise<string | undefined> {
  const versions = await readdir(DEBIAN).catch(() => []);
  const newestFirst = versions.sort((one, other) => Number(other) - Number(one));
  const folders = [
    ...newestFirst.map((version) => join(DEBIAN, version, "bin")),
    ...(process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== ""),
  ];
  return folders.find((folder) => ["initdb", "postgres"].every((name) => existsSync(join(folder, name))));
}

async function makeDatabase(url: string) {
  const name = `interlock_${randomBytes(6).toString("hex")}`;
  await askDatabase(url, `CREATE DATABASE ${name}`);
  const own = new URL(url);
  own.pathname = `/${name}`;
  const drop = async () => void (await askDatabase(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  return { url: own.href, drop };
}

/** Query the database directly. Rejects if its server ends before the answer. */
export async function askDatabase(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  // A server may end at any time: the statement fails, and this error comes in addition.
  client.on("error", () => {});
  await client.connect();
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

/** A server whose disk the test fills, and its process. */
export interface SmallPostgres extends PostgresServer {
  readonly process: PostgresProcess;
}

/** Starts one; undefined without installed binaries, because a container that ends loses its disk. */
export async function findSmallPostgres(diskMib: number): Promise<(() => Promise<SmallPostgres>) | undefined> {
  const folder = await findFolder();
  if (folder === undefined) return undefined;
  return async () => {
    const process = await PostgresProcess.start(folder, { isDurable: true, diskMib });
    return { ...serverOf(process), process };
  };
}

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
