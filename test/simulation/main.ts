import { parseArgs } from "node:util";
import { type Outcome, playHistory } from "./history.ts";
import { PLANTED } from "./planted.ts";
import { playMany, report } from "./play-many.ts";
import { THEMES, type ThemeName } from "./theme.ts";
import type { Staging } from "./world.ts";

/**
 * `npm run test:simulation -- --seed 42` plays one history and prints it; `-- --histories 20000 --from 1000000` plays
 * many, and prints the first that breaks. `--theme slow` plays only that theme, `--planted "keeps no receipts"` a
 * system with that fault. `--lines 400`: the printed part of a history.
 */
const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    histories: { type: "string", default: "2000" },
    from: { type: "string", default: "1" },
    lines: { type: "string", default: "120" },
    theme: { type: "string" },
    planted: { type: "string" },
  },
});

const counts = new Map<string, number>();
let played = 0;

function count({ world }: Outcome): void {
  played += 1;
  for (const [what, times] of world.counts) counts.set(what, (counts.get(what) ?? 0) + times);
}

function stage(): Staging {
  const { theme, planted } = values;
  if (theme !== undefined && !isTheme(theme)) throw new Error(`--theme: one of ${Object.keys(THEMES).join(", ")}`);
  const fault = planted === undefined ? {} : PLANTED[planted];
  if (!fault) throw new Error(`--planted: one of ${Object.keys(PLANTED).join("; ")}`);
  return { ...fault, ...(theme !== undefined && { theme }) };
}

const isTheme = (name: string): name is ThemeName => Object.hasOwn(THEMES, name);

async function playAsked(): Promise<Outcome | undefined> {
  if (values.seed === undefined) return playMany(Number(values.from), Number(values.histories), stage(), count);
  const outcome = await playHistory(Number(values.seed), stage());
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
