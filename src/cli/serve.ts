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

  await new Promise<void>((resolve) => {
    let isStopping = false;
    const stop = () => {
      // Further signals change nothing: the drain has its bound.
      if (isStopping) return;
      isStopping = true;
      const late = setTimeout(() => process.exit(0), settings.drainMs + CLOSE_MS);
      late.unref();
      app.stop().then(resolve, (error) => {
        process.stderr.write(`interlock: ${(error as Error).message}\n`);
        resolve();
      });
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
  process.exit(0);
}
