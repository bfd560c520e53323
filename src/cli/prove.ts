import { type Proof, type ProofOutcome, prove, type Round } from "../policy/proof.ts";
import { type Paint, paintFor } from "./paint.ts";
import { counted, type Output, printLines } from "./printed-lines.ts";
import { catalogOrCode } from "./read-catalog.ts";
import { wrapToWidth } from "./text-width.ts";

export interface ProveOptions {
  /** The maximum number of sessions at a time, explored to the end. Default: as many as the work allows. */
  sessions?: number | undefined;
  /** How long it may take, in s. Default: as long as its work takes. */
  seconds?: number | undefined;
  env: Readonly<Record<string, string | undefined>>;
  /** Where progress is shown: not where the outcome is printed. */
  progress: Output;
}

const WIDTH = 80;
/** Between two states of the line on a terminal. */
const PROGRESS_MS = 200;
/** Between two lines where there is no terminal. */
const LINE_MS = 10_000;

const EXIT_CODES: Readonly<Record<ProofOutcome, number>> = { holds: 0, broken: 1, unfinished: 3, faulty: 4 };

const SCOPE_NAMES: Readonly<Record<Round["scope"], string>> = {
  plain: "Requests, ends, pauses, programs that die, deadlines",
  flags: "The same, with flags and hours that change",
  disables: "The same, with one agent disabled and enabled",
};

/** What is varied, in the lines of progress. */
const VARIED: Readonly<Record<Round["scope"], string>> = {
  plain: "",
  flags: "flags and hours, ",
  disables: "one agent disabled, ",
};

/**
 * `interlock prove [file]`: explore what can happen on a floor with the catalogue's agents, and check the invariants
 * and the catalogue's claims.
 *
 * @returns the exit code: 0; 1 if something does not hold, or the catalogue has faults; 2 if it cannot be read; 3 if
 *   not enough was explored; 4 if the prover itself is at fault
 */
export async function proveCatalog(path: string, out: Output, options: ProveOptions): Promise<number> {
  const catalog = await catalogOrCode(path, (line) => printLines(out, [line]));
  if (typeof catalog === "number") return catalog;
  const { sessions, seconds, env, progress } = options;
  const paint = paintFor(out, env);
  const meter = meterOn(progress);
  const end = seconds === undefined ? undefined : performance.now() + seconds * 1_000;
  const isOver = end === undefined ? undefined : () => performance.now() >= end;
  const proof = prove({ catalog, sessions, isOver, onProgress: meter.show });
  meter.end();
  const colour = proof.outcome === "holds" ? "active" : "refused";
  const wrapped = (line: string) => wrapToWidth(line, WIDTH);
  const conclusion = concludes(proof, catalog.claims.length, path).flatMap(wrapped);
  printLines(out, [
    ...describe(proof, paint),
    "",
    ...conclusion.map((line) => paint(colour, line)),
    ...proof.broken.flatMap(({ what, script }, index) => [
      ...(index > 0 || conclusion.length > 0 ? [""] : []),
      ...wrapped(`Does not hold: ${what}`).map((line) => paint("refused", line)),
      paint("quiet", `# The shortest sequence: interlock simulate --config ${path} FILE`),
      ...script.trimEnd().split("\n"),
    ]),
  ]);
  return EXIT_CODES[proof.outcome];
}

/** The outcome, in sentences. */
function concludes(proof: Proof, claims: number, path: string): string[] {
  const { outcome, reached, needed, isCutShort, broken, fault } = proof;
  const rest = claims - broken.filter(({ claim }) => claim).length;
  const isSafe = broken.every(({ claim }) => claim);
  const explored = reached === 0 ? "not even with 1 session" : `with up to ${counted(reached, "session")} at a time`;
  const what = `Every invariant holds${rest > 0 ? `, and ${counted(rest, "claim")}` : ""}`;
  switch (outcome) {
    case "faulty":
      return [`A fault of interlock prove, not of the catalogue: ${fault}. Nothing that it printed counts.`];
    case "holds":
      return [`${what}, ${explored}.`];
    case "broken":
      return reached >= needed && isSafe && !isCutShort ? [`${what}, ${explored}.`] : [];
    case "unfinished":
      return [
        `Not explored far enough: nothing was found, and every state was reached ${explored}; needed are ${needed}.`,
        isCutShort
          ? "The time was over: it does not suffice to say that anything holds. Leave out --seconds, or give it more."
          : `interlock prove --sessions ${needed} ${path} explores so many to the end, however long it takes.`,
      ];
  }
}

function describe({ rounds, reached }: Proof, paint: Paint): string[] {
  const lines: string[] = [];
  for (const scope of Object.keys(SCOPE_NAMES) as Round["scope"][]) {
    const own = rounds.filter((round) => round.scope === scope);
    if (own.length > 0) lines.push(paint("title", SCOPE_NAMES[scope]));
    for (const { size, states, steps, isComplete, depth } of own) {
      const extent = isComplete ? "every reachable state" : `every sequence of ${depth} moves`;
      const counts = `${numberText(states)} states, ${numberText(steps)} steps`;
      lines.push(`  ${counted(size, "session").padEnd(12)}${extent.padEnd(30)}${counts}`);
    }
  }
  const limit = `Not explored: more than ${counted(reached, "session")} to the end, users with preferences, switches to another agent, two agents disabled at once, and flags that change while an agent is disabled. Schedules, edits and moves between zones act as requests and ends, and a turn that its budget refuses as one that ends.`;
  return [...lines, ...wrapToWidth(limit, WIDTH).map((line) => paint("quiet", line))];
}

const numberText = (value: number): string => value.toLocaleString("en");

/** One line that is written over on a terminal; elsewhere, such as in the log of a CI, a line now and then. */
function meterOn(screen: Output) {
  const { isTTY = false } = screen;
  const begun = performance.now();
  let shownAt = isTTY ? Number.NEGATIVE_INFINITY : begun;
  let length = 0;
  const write = (text: string) => {
    screen.write(`\r${text.padEnd(length)}`);
    length = text.length;
  };
  return {
    show({ scope, size, states, depth }: Pick<Round, "scope" | "size" | "states" | "depth">): void {
      const now = performance.now();
      if (now - shownAt < (isTTY ? PROGRESS_MS : LINE_MS)) return;
      shownAt = now;
      const reached = `${counted(size, "session")}, ${VARIED[scope]}${counted(depth, "move")}, ${numberText(states)} states`;
      if (isTTY) write(reached);
      else printLines(screen, [`still exploring after ${Math.round((now - begun) / 1_000)} s: ${reached}`]);
    },
    end(): void {
      if (length > 0) screen.write(`\r${" ".repeat(length)}\r`);
    },
  };
}
