import { createApp } from "../app.ts";
import { readSettings } from "../config/settings.ts";

/** What a stop may take beyond the drain, in ms: files to close, nothing to wait for. */
const CLOSE_MS = 2_000;

/** `interlock serve`: run a node until it is told to stop. Never resolves before that. */
export async function serve(flags: readonly string[]): Promise<void> {
  const reading = readSettings(process.env, flags);
  if (!reading.ok) {
    const lines = reading.faults.map(({ name, message }) => `  ${name} ${message}\n`);
    process.stderr.write(`interlock: the settings cannot be used\n${lines.join("")}`);
    process.exitCode = 1;
    return;
  }
  const { settings } = reading;
  // From before the start on: whoever reads that it listens may tell it to stop at once. Further signals change nothing.
  const told = Promise.withResolvers<void>();
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => told.resolve());
  const app = createApp({ settings });
  let url: string;
  try {
    ({ url } = await app.start());
  } catch (error) {
    process.stderr.write(`interlock: ${(error as Error).message}\n`);
    process.exitCode = 1;
    return;
  }
  process.stdout.write(`Interlock is listening on ${url}\n`);

  await told.promise;
  // The drain has its bound.
  setTimeout(() => process.exit(0), settings.drainMs + CLOSE_MS).unref();
  await app.stop().catch((error: Error) => process.stderr.write(`interlock: ${error.message}\n`));
  process.exit(0);
}
