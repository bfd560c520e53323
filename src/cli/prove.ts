import { describeRefusal, loadCatalog } from "../config/catalog/catalog-file.ts";
import { type Proof, prove, type Round, scriptOf } from "../policy/proof.ts";
import { type Paint, paintFor } from "./paint.ts";
import { type Output, printLines } from "./printed-lines.ts";
import { wrapToWidth } from "./text-width.ts";

export interface ProveOptions {
  /** The maximum number of sessions at a time, explored to the end. Default: as many as the time allows. */
  sessions?: number | undefined;
  /** How long it may take, in s. Ignored with `sessions`. */
  seconds: number;
  env: Readonly<Record<string, string | undefined>>;
  /** Where progress is shown, if it is a terminal. */
  progress: Output;
}

const WIDTH = 80;
const PROGRESS_MS = 200;
const SCOPES = 3;

const SCOPE_NAMES: Readonly<Record<Round["scope"], string>> = {
  plain: "Requests, ends, pauses, programs that die, deadlines",
  flags: "The same, with flags and hours that change",
  disables: "The same, with one agent disabled and enabled",
};

/**
 * `interlock prove [file]`: explore what can happen on a floor with the catalogue's agents, and check the invariants
 * and the catalogue's claims.
 *
 * @returns the exit code: 0; 1 if something does not hold, or the catalogue has faults; 2 if it cannot be read
 */
export async function proveCatalog(path: string, out: Output, options: ProveOptions): Promise<number> {
  const print = (line = "") => printLines(out, [line]);
  const reading = await loadCatalog(path);
  if (!reading.ok) {
    for (const line of describeRefusal(path, reading)) print(line);
    return reading.unreadable ? 2 : 1;
  }
  const { catalog } = reading;
  const { sessions, seconds, env, progress } = options;
  const paint = paintFor(out, env);
  const meter = meterOn(progress);
  const budgetMs = (seconds * 1_000) / SCOPES;
  const proof = prove({ catalog, sessions, budgetMs, now: () => performance.now(), onProgress: meter.show });
  meter.end();
  for (const line of describe(proof, paint)) print(line);
  print();
  const passed = catalog.assertions.length - proof.violations.filter(({ assertion }) => assertion).length;
  const assertions = passed === 0 ? "" : passed === 1 ? ", and 1 claim" : `, and ${passed} claims`;
  if (proof.violations.every(({ assertion }) => assertion))
    print(paint("active", `Every invariant holds${assertions}.`));
  for (const violation of proof.violations) {
    print();
    for (const line of wrapToWidth(`Does not hold: ${violation.what}`, WIDTH)) print(paint("refused", line));
    print(paint("quiet", `# The shortest sequence: interlock simulate --config ${path} FILE`));
    printLines(out, scriptOf(violation, catalog).trimEnd().split("\n"));
  }
  return proof.violations.length > 0 ? 1 : 0;
}

function describe({ rounds }: Proof, paint: Paint): string[] {
  const lines: string[] = [];
  let scope: Round["scope"] | undefined;
  for (const round of rounds) {
    if (round.scope !== scope) lines.push(paint("title", SCOPE_NAMES[round.scope]));
    scope = round.scope;
    const { size, states, steps, isComplete, depth } = round;
    const sessions = size === 1 ? "1 session" : `${size} sessions`;
    const extent = isComplete ? "every reachable state" : `every sequence of ${depth} moves`;
    const counts = `${numberText(states)} states, ${numberText(steps)} steps`;
    lines.push(`  ${sessions.padEnd(12)}${extent.padEnd(30)}${counts}`);
  }
  const last = rounds.findLast((round) => round.scope === "plain");
  if (!last) return lines;
  const most = last.isComplete ? last.size : last.size - 1;
  const limit = `Not explored: more than ${most} sessions to the end, users with preferences, switches to another agent, turns (they act as requests, pauses and ends), and how long things take beyond the next deadline.`;
  return [...lines, ...wrapToWidth(limit, WIDTH).map((line) => paint("quiet", line))];
}

const numberText = (value: number): string => value.toLocaleString("en");

/** One line that is written over, on a terminal only. */
function meterOn(screen: Output) {
  let shownAt = 0;
  let length = 0;
  const write = (text: string) => {
    screen.write(`\r${text.padEnd(length)}`);
    length = text.length;
  };
  return {
    show({ size, states, depth }: { size: number; states: number; depth: number }): void {
      if (screen.isTTY !== true || performance.now() - shownAt < PROGRESS_MS) return;
      shownAt = performance.now();
      write(`${size} sessions, ${depth} moves, ${numberText(states)} states`);
    },
    end(): void {
      if (length > 0) screen.write(`\r${" ".repeat(length)}\r`);
    },
  };
}
