import { parseArgs } from "node:util";
import { type Outcome, playHistory } from "./history.ts";
import { playMany } from "./play-many.ts";
import { report } from "./report.ts";

/**
 * `npm run test:simulation -- --seed 42` plays one history and tells it; `-- --histories 20000 --from 1000000` plays
 * many, and tells the first that breaks. `--lines 400`: how much of it is told.
 */
const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    histories: { type: "string", default: "2000" },
    from: { type: "string", default: "1" },
    lines: { type: "string", default: "120" },
  },
});

const counts = new Map<string, number>();
let played = 0;

function count({ world }: Outcome): void {
  played += 1;
  for (const [what, times] of world.counts) counts.set(what, (counts.get(what) ?? 0) + times);
}

async function playAsked(): Promise<Outcome | undefined> {
  if (values.seed === undefined) return playMany(Number(values.from), Number(values.histories), undefined, count);
  const outcome = await playHistory(Number(values.seed));
  count(outcome);
  return outcome;
}

const begun = process.cpuUsage();
const outcome = await playAsked();
const { user, system } = process.cpuUsage(begun);
const seconds = (user + system) / 1e6;
if (outcome) console.log(report(outcome, Number(values.lines)));
console.log(`${played} histories in ${seconds.toFixed(1)} s of one core, ${(played / seconds).toFixed(1)} a second`);
console.log([...counts].map(([what, times]) => `${what} ${times}`).join(", "));
process.exitCode = outcome?.broken === undefined ? 0 : 1;
