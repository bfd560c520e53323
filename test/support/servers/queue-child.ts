import { openBullmqQueue } from "../../../src/queue/bullmq-queue.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { KeptLog } from "../stores/sqlite-place.ts";

/** A process that takes every run and finishes none; it reports the runs that it took. */
const [url, epoch] = process.argv.slice(2) as [string, string];
const queue = await openBullmqQueue({ urls: [url], epoch, clock: new SystemClock(), log: new KeptLog() });
await queue.process(
  "run",
  ({ id }) => {
    process.send!(id);
    return new Promise(() => {});
  },
  { concurrency: 10 },
);
process.on("disconnect", () => process.exit());
