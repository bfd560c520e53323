import type { Catalog } from "../config/catalog/catalog.ts";
import { EXPLORED_FROM, type Explored, explore, type Violation, variationsOf } from "./exploration.ts";
import { stepsOf, type Variations } from "./moves.ts";
import { SteppedFloor } from "./stepped-floor.ts";

/** What one exploration varies, beside requests, ends, pauses, deaths and deadlines. */
const SCOPES = ["plain", "flags", "disables"] as const;
type Scope = (typeof SCOPES)[number];

export interface Round extends Explored {
  readonly scope: Scope;
  /** The maximum number of sessions at a time. */
  readonly size: number;
}

export interface Proof {
  readonly rounds: readonly Round[];
  /** Assertions that do not hold; or at last an invariant, which ends the proof. */
  readonly violations: readonly Violation[];
}

export interface ProofOptions {
  catalog: Catalog;
  /** The maximum number of sessions at a time, explored to the end. Default: as many as the time allows. */
  sessions?: number | undefined;
  /** For each scope. Ignored with `sessions`. */
  budgetMs: number;
  /** The present, in ms. */
  now: () => number;
  onProgress?: ((round: Pick<Round, "scope" | "size" | "states" | "steps" | "depth">) => void) | undefined;
}

/** The maximum number of sessions that a proof goes up to by itself. */
const MAX_SIZE = 8;

/** Explore a catalogue's floor with more and more sessions, until the time is over or an invariant does not hold. */
export function prove(options: ProofOptions): Proof {
  const all = variationsOf(options.catalog);
  const rounds: Round[] = [];
  const violations: Violation[] = [];
  for (const scope of SCOPES) {
    const variations = variationsIn(scope, all);
    if (variations) exploreScope({ scope, variations, rounds, violations }, options);
    if (violations.some(({ assertion }) => !assertion)) break;
  }
  return { rounds, violations };
}

interface ScopeOfProof {
  scope: Scope;
  variations: Variations;
  rounds: Round[];
  violations: Violation[];
}

function exploreScope({ scope, variations, rounds, violations }: ScopeOfProof, options: ProofOptions): void {
  const { catalog, sessions, budgetMs, now, onProgress } = options;
  const end = now() + budgetMs;
  const isOver = sessions === undefined ? () => now() >= end : undefined;
  for (let size = 1; size <= (sessions ?? MAX_SIZE); ) {
    // Explore the other assertions without those that do not hold.
    const assertions = catalog.assertions.filter((assertion) =>
      violations.every((violation) => violation.assertion !== assertion),
    );
    const report = (seen: { states: number; steps: number; depth: number }) => onProgress?.({ scope, size, ...seen });
    const explored = explore({ catalog: { ...catalog, assertions }, size, variations, isOver, onProgress: report });
    const { violation } = explored;
    if (violation) {
      violations.push(shortest(catalog, variations, size, violation));
      if (violation.assertion) continue;
      return;
    }
    rounds.push({ scope, size, ...explored });
    if (!explored.isComplete) return;
    size += 1;
  }
}

/** More sessions may lead to it with fewer moves. */
function shortest(catalog: Catalog, variations: Variations, size: number, found: Violation): Violation {
  let best = found;
  const only = { ...catalog, assertions: found.assertion ? [found.assertion] : [] };
  for (let more = size + 1; more < best.moves.length; more++) {
    const { violation } = explore({ catalog: only, size: more, variations, maxDepth: best.moves.length - 1 });
    if (violation && violation.moves.length < best.moves.length) best = violation;
  }
  return best;
}

function variationsIn(scope: Scope, { flags, hours, disables }: Variations): Variations | undefined {
  switch (scope) {
    case "plain":
      return { flags: [], hours: [], disables: [] };
    case "flags":
      return flags.length + hours.length > 0 ? { flags, hours, disables: [] } : undefined;
    case "disables":
      return disables.length > 0 ? { flags: [], hours: [], disables } : undefined;
  }
}

/** The shortest sequence as a script for `interlock simulate`. */
export function scriptOf({ what, moves }: Violation, catalog: Catalog): string {
  const [first, ...rest] = stepsOf(new SteppedFloor({ catalog, now: EXPLORED_FROM }), moves);
  const time = new Date(EXPLORED_FROM).toISOString();
  const steps = [first!.replace("{", `{ at: "${time.slice(11, 16)}",`), ...rest];
  const title = JSON.stringify(what);
  return `title: ${title}\nday: ${time.slice(0, 10)}\nsteps:\n${steps.map((step) => `  - ${step}\n`).join("")}`;
}
