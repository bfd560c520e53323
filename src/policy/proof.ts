import type { Catalog } from "../config/catalog/catalog.ts";
import { type Explored, explore, type Violation, variationsOf } from "./exploration.ts";
import type { Variations } from "./moves.ts";
import { storyOf } from "./story.ts";

/** What one exploration varies, beside requests, ends, pauses, programs that die and deadlines. */
const SCOPES = ["plain", "flags", "disables"] as const;
type Scope = (typeof SCOPES)[number];

export interface Round extends Explored {
  readonly scope: Scope;
  /** The maximum number of sessions at a time. */
  readonly size: number;
}

/** A claim or an invariant that does not hold, with a script that was played and shows it. */
export interface PlayedViolation extends Violation {
  readonly script: string;
}

/**
 * The outcome of a proof:
 * - `holds`: what the claims need was explored to its end, and nothing breaks them;
 * - `broken`: a claim or an invariant does not hold;
 * - `unfinished`: nothing was found, and not enough was explored to say that nothing is there;
 * - `faulty`: the prover found something that its own script does not show, so that nothing it says counts.
 */
export type ProofOutcome = "holds" | "broken" | "unfinished" | "faulty";

export interface Proof {
  readonly outcome: ProofOutcome;
  readonly rounds: readonly Round[];
  readonly broken: readonly PlayedViolation[];
  /** The number of sessions at a time that every scope was explored with to its end. */
  readonly reached: number;
  /** The number of sessions at a time with which every scope has to be explored to its end. */
  readonly needed: number;
  /** Whether its time was over before its work was done. */
  readonly isCutShort: boolean;
  /** What was found and does not play, and how it differs. */
  readonly fault?: string | undefined;
}

export interface ProofOptions {
  catalog: Catalog;
  /** The maximum number of sessions at a time, explored to the end. Default: as many as the work allows. */
  sessions?: number | undefined;
  /** Whether the time for it is over. What is proven then is not called proven. Default: there is time enough. */
  isOver?: (() => boolean) | undefined;
  /** The steps for it. */
  work?: Work | undefined;
  onProgress?: ((round: Pick<Round, "scope" | "size" | "states" | "steps" | "depth">) => void) | undefined;
}

/** Work is counted in steps and not in seconds, so that the outcome does not depend on the machine. */
interface Work {
  /** For each scope with each number of sessions that is needed. */
  readonly needed: number;
  /** For all that is explored beyond that. */
  readonly further: number;
}

/**
 * A claim and an invariant are about a session and another one that is in its way. Every scope is explored with so many
 * sessions at a time, or the outcome is not `holds`.
 */
const NEEDED_SESSIONS = 2;
/** The maximum number of sessions that a proof goes up to by itself. */
const MAX_SIZE = 8;
/** A quarter of an hour at most where it needs much, and half a minute for a catalogue such as that of the car. */
const WORK: Work = { needed: 1_000_000, further: 100_000 };
/** Steps for a shorter sequence with more sessions, per violation. */
const SHORTER_STEPS = 20_000;

/** Explore a catalogue's floor with more and more sessions, until the work is done or an invariant does not hold. */
export function prove(options: ProofOptions): Proof {
  return new Proving(options).run();
}

class Proving {
  readonly #options: ProofOptions;
  readonly #scopes: readonly { scope: Scope; variations: Variations }[];
  readonly #rounds: Round[] = [];
  readonly #broken: PlayedViolation[] = [];
  readonly #open = new Set<Scope>();
  readonly #work: Work;
  #left: number;
  #fault: string | undefined;
  #isCutShort = false;

  constructor(options: ProofOptions) {
    this.#options = options;
    this.#work = options.work ?? WORK;
    this.#left = this.#work.further;
    const all = variationsOf(options.catalog);
    this.#scopes = SCOPES.flatMap((scope) => {
      const variations = variationsIn(scope, all);
      return variations ? [{ scope, variations }] : [];
    });
  }

  run(): Proof {
    const { sessions } = this.#options;
    for (const { scope } of this.#scopes) this.#open.add(scope);
    const most = sessions ?? MAX_SIZE;
    for (let size = 1; size <= most && this.#open.size > 0; size++) {
      for (const { scope, variations } of this.#scopes) {
        if (this.#open.has(scope) && !this.#explore(scope, variations, size)) return this.#proof();
      }
    }
    return this.#proof();
  }

  /** @returns whether the proof goes on */
  #explore(scope: Scope, variations: Variations, size: number): boolean {
    const { catalog, sessions, isOver, onProgress } = this.#options;
    const isNeeded = sessions !== undefined || size <= NEEDED_SESSIONS;
    if (!isNeeded && this.#left <= 0) {
      this.#open.clear();
      return true;
    }
    const explored = explore({
      catalog,
      size,
      variations,
      claims: catalog.claims.map((each) => (this.#isBroken(each) ? { name: each.name } : each)),
      maxSteps: sessions === undefined ? (isNeeded ? this.#work.needed : this.#left) : undefined,
      isOver,
      onProgress: (progress) => onProgress?.({ scope, size, ...progress }),
    });
    if (!isNeeded) this.#left -= explored.steps;
    this.#rounds.push({ scope, size, ...explored });
    for (const violation of explored.violations) {
      if (!this.#keep(shortest(catalog, variations, size, violation))) return false;
    }
    if (!explored.isComplete) this.#open.delete(scope);
    this.#isCutShort ||= isOver?.() === true;
    return !this.#isCutShort && explored.violations.every(({ claim }) => claim);
  }

  #isBroken(claim: Violation["claim"]): boolean {
    return this.#broken.some((each) => each.claim === claim);
  }

  #keep(violation: Violation): boolean {
    const story = storyOf(violation, this.#options.catalog);
    if ("fault" in story) {
      this.#fault = `${violation.what}; ${story.fault}`;
      return false;
    }
    this.#broken.push({ ...violation, script: story.script });
    return true;
  }

  #proof(): Proof {
    const reached = Math.min(
      ...this.#scopes.map(({ scope }) =>
        Math.max(0, ...this.#rounds.filter((each) => each.scope === scope && each.isComplete).map(({ size }) => size)),
      ),
    );
    const needed = Math.max(this.#options.sessions ?? 0, NEEDED_SESSIONS);
    const isFinished = reached >= needed && !this.#isCutShort;
    const outcome = this.#fault ? "faulty" : this.#broken.length > 0 ? "broken" : isFinished ? "holds" : "unfinished";
    const [rounds, broken, isCutShort, fault] = [this.#rounds, this.#broken, this.#isCutShort, this.#fault];
    return { outcome, rounds, broken, reached, needed, isCutShort, fault };
  }
}

/** More sessions may lead to it with fewer moves. */
function shortest(catalog: Catalog, variations: Variations, size: number, found: Violation): Violation {
  let best = found;
  const claims = found.claim ? [found.claim] : [];
  let left = SHORTER_STEPS;
  for (let more = size + 1; more < best.moves.length && left > 0; more++) {
    const maxDepth = best.moves.length - 1;
    const { violations, steps } = explore({ catalog, claims, size: more, variations, maxDepth, maxSteps: left });
    left -= steps;
    for (const violation of violations) if (violation.moves.length < best.moves.length) best = violation;
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
