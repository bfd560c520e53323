import { afterAll, beforeAll, onTestFinished } from "vitest";

interface Stoppable {
  stop(): Promise<void>;
}

/** The server of a suite, from its first test to its last. */
export function serverOf<S extends Stoppable>(start: () => Promise<S>): () => S {
  let server: S | undefined;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(async () => {
    await server?.stop();
  });
  return () => server!;
}

/** Starts servers that end with their test. */
export function perTest<S extends Stoppable, O>(start: (options?: O) => Promise<S>): (options?: O) => Promise<S> {
  return async (options) => {
    const server = await start(options);
    onTestFinished(() => server.stop());
    return server;
  };
}
