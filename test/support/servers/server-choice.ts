import { describe } from "vitest";
import { reportUntested } from "../runner/untested.ts";

/** The timeout of one test. The machine runs other tests at the same time. */
const PATIENCE_MS = 30_000;

/** A server for tests. */
export interface TestServer {
  stop(): Promise<void>;
}

/** The ways to get a server of a kind. */
export interface ServerKind<S extends TestServer> {
  /** Its display name: "PostgreSQL". */
  readonly name: string;
  /** The environment's variable that may name a running server. */
  readonly variable: string;
  /** Use a running server, which the tests must not stop. */
  at(url: string): Promise<S>;
  inContainer(): Promise<S>;
  /** Start one from installed binaries; undefined without them. */
  findBinaries(): Promise<(() => Promise<S>) | undefined>;
}

export type ServerChoice<S extends TestServer> = { how: string; start: () => Promise<S> } | { missing: string };

/**
 * Finds a real server for a test: the one named by the environment, else a container if a Docker engine answers, else
 * installed binaries. `own`: the test may stop it, so the named one is not used.
 */
export async function chooseServer<S extends TestServer>(
  kind: ServerKind<S>,
  { own = false }: { own?: boolean } = {},
): Promise<ServerChoice<S>> {
  const url = process.env[kind.variable];
  if (url && !own) return { how: `the one of ${kind.variable}`, start: () => kind.at(url) };
  if (await hasDocker()) return { how: "a container", start: () => kind.inContainer() };
  const start = await kind.findBinaries();
  if (start) return { how: "this machine's binaries", start };
  const named = own ? "" : `no ${kind.variable}, `;
  return { missing: `${named}no Docker engine, no ${kind.name} on this machine` };
}

/** @throws Error if no such server is available */
export async function startServer<S extends TestServer>(kind: ServerKind<S>, options?: { own?: boolean }): Promise<S> {
  const choice = await chooseServer(kind, options);
  if ("missing" in choice) throw new Error(`${kind.name} cannot be started: ${choice.missing}`);
  return await choice.start();
}

/**
 * A suite that needs a server. Without one it is skipped, with the reason in its name and on the console; where `CI` is
 * set it fails.
 */
export function describeWith<S extends TestServer>(
  { name: kind }: ServerKind<S>,
  choice: ServerChoice<S>,
  name: string,
  suite: (start: () => Promise<S>) => void,
): void {
  if ("start" in choice) return void describe(name, { timeout: PATIENCE_MS }, () => suite(choice.start));
  reportUntested(name, `needs ${kind}: ${choice.missing}`);
}

let dockerAnswers: Promise<boolean> | undefined;

function hasDocker(): Promise<boolean> {
  dockerAnswers ??= import("testcontainers")
    .then(({ getContainerRuntimeClient }) => getContainerRuntimeClient())
    .then(
      () => true,
      () => false,
    );
  return dockerAnswers;
}
