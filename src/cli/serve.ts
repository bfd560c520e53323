import { readSettings } from "../config/settings.ts";
import { type App, createApp } from "../node/app.ts";
import { STDOUT } from "../system/log.ts";
import { optimiseEarly } from "./early-optimisation.ts";
import { complain, printLines } from "./printed-lines.ts";
import { startLines } from "./start-lines.ts";

/** How long a stop may take after the drain, in ms: it only closes files. */
const CLOSE_MS = 2_000;

/** `interlock serve`: run a node until a signal stops it. @returns the exit code if the node cannot start */
export async function serve(flags: readonly string[]): Promise<number | undefined> {
  optimiseEarly();
  const reading = readSettings(process.env, flags);
  if (!reading.ok) {
    const lines = reading.faults.map(({ name, message }) => `  ${name} ${message}`);
    complain(process.stderr, "the settings cannot be used", ...lines, "See interlock serve --help.");
    return 1;
  }
  // Listen for signals before the start: a supervisor may stop the node as soon as it listens. Further signals have no
  // effect.
  const stopRequested = Promise.withResolvers<"stop">();
  let isStopping = false;
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) {
    process.on(signal, () => {
      isStopping = true;
      stopRequested.resolve("stop");
    });
  }
  for (let { settings } = reading; ; ) {
    const hasNewEpoch = Promise.withResolvers<"start again">();
    const app = createApp({ settings, onNewEpoch: () => hasNewEpoch.resolve("start again") });
    const starting = app.start();
    const next = Promise.race([stopRequested.promise, hasNewEpoch.promise]);
    const ended = next.then((why) => stop(app, settings.drainMs + CLOSE_MS, why));
    try {
      const { url, isNewStore } = await starting;
      printLines(STDOUT, startLines(url, settings, isNewStore));
      // The node starts again on the port that it had.
      settings = { ...settings, port: Number(new URL(url).port) || settings.port };
    } catch (error) {
      print(isStopping ? "stopped while it started" : (error as Error).message);
      if (!isStopping) {
        endLater(1, CLOSE_MS);
        return 1;
      }
    }
    const code = await ended;
    if ((await next) === "stop" || isStopping) process.exit(code);
  }
}

/** Stop the node within this time. @returns the exit code */
async function stop(app: App, limitMs: number, why: "stop" | "start again"): Promise<number> {
  const seconds = Math.ceil(limitMs / 1_000);
  printLines(STDOUT, [
    why === "stop"
      ? `Interlock is stopping, within ${seconds} s`
      : `Interlock starts again within ${seconds} s: the store has a new epoch, because it lacked commits`,
  ]);
  const cutOff = endLater(
    why === "stop" ? 0 : 1,
    limitMs,
    `the stop took longer than ${limitMs} ms; what was still under way is cut off`,
  );
  try {
    await app.stop();
    return 0;
  } catch (error) {
    print((error as Error).message);
    return 1;
  } finally {
    if (why === "start again") clearTimeout(cutOff);
  }
}

/** End the process after this time if something still keeps it alive. */
function endLater(code: number, ms: number, why?: string): NodeJS.Timeout {
  const end = () => {
    if (why !== undefined) print(why);
    process.exit(code);
  };
  return setTimeout(end, ms).unref();
}

const print = (sentence: string): void => complain(process.stderr, ...sentence.split("\n"));
