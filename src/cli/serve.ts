import { createApp } from "../app.ts";
import { readSettings } from "../config/settings.ts";
import { STDOUT } from "../log.ts";
import { startLines } from "./start-lines.ts";

/** How long a stop may take after the drain, in ms: it only closes files. */
const CLOSE_MS = 2_000;

/** `interlock serve`: run a node until a signal stops it. @returns the exit code if the node cannot start */
export async function serve(flags: readonly string[]): Promise<number | undefined> {
  const reading = readSettings(process.env, flags);
  if (!reading.ok) {
    const lines = reading.faults.map(({ name, message }) => `  ${name} ${message}\n`);
    process.stderr.write(`interlock: the settings cannot be used\n${lines.join("")}See interlock serve --help.\n`);
    return 1;
  }
  const { settings } = reading;
  // Listen for signals before the start: a supervisor may stop the node as soon as it listens. Further signals have no
  // effect.
  const stopRequested = Promise.withResolvers<void>();
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => stopRequested.resolve());
  const app = createApp({ settings });
  let url: string;
  try {
    ({ url } = await app.start());
  } catch (error) {
    process.stderr.write(`interlock: ${(error as Error).message}\n`);
    return 1;
  }
  STDOUT.write(startLines(url, settings));

  await stopRequested.promise;
  // Bound the drain.
  setTimeout(() => process.exit(0), settings.drainMs + CLOSE_MS).unref();
  await app.stop().catch((error: Error) => process.stderr.write(`interlock: ${error.message}\n`));
  process.exit(0);
}
