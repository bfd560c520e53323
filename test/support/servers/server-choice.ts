import { describe } from "vitest";
import { reportUntested } from "../runner/untested.ts";

/** For one test. A real server shares the machine with everything else that is tested at that time. */
const PATIENCE_MS = 30_000;

/** A server that tests talk to. */
export interface TestServer {
  stop(): Promise<void>;
}

/** How servers of a kind can be had. */
export interface ServerKind<S extends TestServer> {
  /** As people call it: "PostgreSQL". */
  readonly name: string;
  /** The environment's variable that may name one that runs already. */
  readonly variable: string;
  /** To use one that runs already, and is not ours to stop. */
  at(url: string): Promise<S>;
  inContainer(): Promise<S>;
  /** Start one from binaries on this machine; undefined without them. */
  findBinaries(): Promise<(() => Promise<S>) | undefined>;
}

export type ServerChoice<S extends TestServer> = { how: string; start: () => Promise<S> } | { missing: string };

/**
 * Where a test gets a real server from: the one the environment names, else a container if a Docker engine answers,
 * else the binaries on this machine. `own`: it must be one that the test may stop, so the named one does not do.
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

/** @throws Error when there is no such server to be had */
export async function startServer<S extends TestServer>(kind: ServerKind<S>, options?: { own?: boolean }): Promise<S> {
  const choice = await chooseServer(kind, options);
  if ("missing" in choice) throw new Error(`${kind.name} cannot be started: ${choice.missing}`);
  return await choice.start();
}

/**
 * A suite that needs a server. Without one it is skipped, and says so in its name and on the console; where `CI` is set
 * that is a failure.
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
