import { createHash } from "node:crypto";
import { BrokenActors } from "../actors/host/floor-actors.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import type { PolicyClaim } from "../config/catalog/policy-claims.ts";
import { Broken } from "./arrangement-check.ts";
import { checkClaims, NOTHING_OWED, type Owed } from "./claims.ts";
import {
  boundsInOrder,
  type ClockZone,
  clockZoneAfter,
  firstClockZone,
  type Passage,
  passagesFrom,
  SeenClockZones,
} from "./clock-zone.ts";
import { HourCombinations } from "./hour-combinations.ts";
import { checkInvariants } from "./invariants.ts";
import type { Constraint } from "./moments.ts";
import { type ExploredMove, leaseRenewedBy, makeMove, movesFrom, type Variations } from "./moves.ts";
import type { SeenStep } from "./seen-step.ts";
import { type Classes, classesOf, stateKey } from "./state-key.ts";
import { SteppedFloor } from "./stepped-floor.ts";

/** Noon of a winter's Monday, when every exploration begins. */
export const EXPLORED_FROM = Date.UTC(2026, 0, 5, 12);

export interface ExplorationOptions {
  catalog: Catalog;
  /** The maximum number of sessions at a time. */
  size: number;
  variations: Variations;
  /** Sequences longer than this are not explored. Default: no limit. */
  maxDepth?: number | undefined;
  /** The number of steps after which it ends. Default: no limit. */
  maxSteps?: number | undefined;
  /** Whether the time for it is over; asked after each state. */
  isOver?: (() => boolean) | undefined;
  onProgress?: ((progress: Progress) => void) | undefined;
  /** The claims to check. Default: those of the catalogue. */
  claims?: readonly PolicyClaim[] | undefined;
  /** Called with every step, for tests. */
  onStep?: ((step: SeenStep) => void) | undefined;
}

export interface Progress {
  readonly states: number;
  readonly steps: number;
  readonly depth: number;
}

export interface Explored extends Progress {
  /** Whether every reachable state was explored. Otherwise: every sequence of `depth` moves. */
  readonly isComplete: boolean;
  /** Claims that do not hold, each with the first sequence that was found; or at last an invariant, which ends it. */
  readonly violations: readonly Violation[];
}

/** A move of a sequence, and how its moment is bounded. */
export interface TimedMove {
  readonly move: ExploredMove;
  /** By the numbers of the steps; the beginning is 0, this move its place in the sequence. */
  readonly constraints: readonly Constraint[];
  /** Which rules with hours apply when it happens. */
  readonly inForce: string;
}

export interface Violation {
  /** The invariant or the claim that does not hold, and why. */
  readonly what: string;
  /** The shortest sequence that leads to it. */
  readonly moves: readonly TimedMove[];
  /** The claim; undefined: an invariant. */
  readonly claim?: PolicyClaim | undefined;
}

interface Node {
  readonly parent: Node | undefined;
  readonly by: TimedMove | undefined;
  readonly depth: number;
  /** Dropped once the node is expanded. */
  zone: ClockZone | undefined;
  readonly owed: Owed;
}

/**
 * Visit every reachable state of a floor, those of fewer moves first, and check every step. Between two moves time may
 * pass until just before, or until, any deadline that may come next: a state is taken with all the moments at which
 * its parts may have begun. States that differ only in the names of their sessions, or in which of several equal agents
 * they have, count as one.
 */
export function explore(options: ExplorationOptions): Explored {
  return new Exploration(options).run();
}

/** The floor with which an exploration begins. Its time is small, so that moments between whole ms are exact. */
export function firstFloor(catalog: Catalog): SteppedFloor {
  const floor = new SteppedFloor({ catalog, now: 0, standsStill: true });
  floor.setClock(EXPLORED_FROM);
  return floor;
}

class Exploration {
  readonly #options: ExplorationOptions;
  readonly #classes: Classes;
  readonly #hours: HourCombinations;
  readonly #seen = new SeenClockZones();
  readonly #queue: Node[] = [];
  readonly #violations: Violation[] = [];
  #claims: readonly PolicyClaim[];
  #steps = 0;

  constructor(options: ExplorationOptions) {
    this.#options = options;
    this.#claims = options.claims ?? options.catalog.claims;
    this.#classes = classesOf(options.catalog);
    this.#hours = new HourCombinations(options.catalog, EXPLORED_FROM);
  }

  run(): Explored {
    const { catalog, maxDepth = Number.POSITIVE_INFINITY, maxSteps, isOver, onProgress } = this.#options;
    this.#keep(undefined, undefined, firstClockZone(firstFloor(catalog)), NOTHING_OWED);
    for (let at = 0; at < this.#queue.length; at++) {
      const node = this.#queue[at]!;
      const isEnough = maxSteps !== undefined && this.#steps >= maxSteps;
      if (node.depth >= maxDepth || isEnough || isOver?.()) return this.#result(node.depth, false);
      onProgress?.(this.#result(node.depth, false));
      for (const [passage, move] of this.#next(node.zone!)) {
        if (!this.#step(node, passage, move)) return this.#result(node.depth, false);
      }
      node.zone = undefined;
    }
    return this.#result(this.#queue.at(-1)!.depth, true);
  }

  #result(depth: number, isComplete: boolean): Explored {
    return { states: this.#seen.count, steps: this.#steps, depth, isComplete, violations: this.#violations };
  }

  /** Everything that can happen next, each after every way in which time may pass before it. */
  *#next(zone: ClockZone): Generator<[Passage, ExploredMove]> {
    const { size, variations } = this.#options;
    const passages = passagesFrom(zone, this.#stepOf(zone) + 1);
    for (const passage of passages) {
      const { happens, floor, sessionId } = passage;
      if (happens === "deadline") yield [passage, { does: "wait" }];
      else if (happens === "lapse") yield [passage, { does: "dies", sessionId: sessionId! }];
      else {
        const inForce = this.#hours.at(floor.now);
        const hours = variations.hours.filter((each) => each !== inForce);
        for (const move of movesFrom(floor, size, this.#newcomers, { ...variations, hours })) yield [passage, move];
      }
    }
  }

  #stepOf = ({ steps }: ClockZone): number => steps.at(-1)!;

  /** @returns whether the exploration goes on: not after a broken invariant */
  #step(node: Node, passage: Passage, move: ExploredMove): boolean {
    this.#steps += 1;
    const zone = node.zone!;
    const by = { move, constraints: passage.constraints, inForce: this.#hours.at(passage.floor.now) };
    const { step, owed, faults } = checkMove(passage.floor, move, node.owed, this.#claims, this.#hours);
    for (const fault of faults) this.#violations.push({ ...fault, moves: [...pathTo(node), by] });
    if (!step || faults.some(({ claim }) => !claim)) return false;
    // A claim that does not hold is not checked again.
    const broken = faults.map(({ claim }) => claim);
    this.#claims = this.#claims.map((each) => (broken.includes(each) ? NO_CLAIM : each));
    this.#options.onStep?.(step);
    const { after } = step;
    const own = leaseRenewedBy(move);
    this.#keep(node, by, clockZoneAfter(zone, passage, after, this.#stepOf(zone) + 1, own), owed);
    return true;
  }

  #keep(parent: Node | undefined, by: TimedMove | undefined, zone: ClockZone, owed: Owed): void {
    const { text, clocks } = this.#keyOf(zone, owed);
    // A digest takes less memory than the text, and no two texts have the same.
    const key = createHash("sha1").update(text).digest("base64");
    if (!this.#seen.add(key, boundsInOrder(zone, clocks))) return;
    this.#queue.push({ parent, by, depth: parent ? parent.depth + 1 : 0, zone, owed });
  }

  #keyOf({ floor, clocks, signs }: ClockZone, owed: Owed) {
    const living = new Set<string>(floor.sessions.map(({ context }) => context.id));
    // A claim that is broken is not explored further, so what it still expects tells no two states apart.
    const checked = [...owed].filter(([index]) => this.#claims[index] !== NO_CLAIM);
    const letters = checked.map(([index, ids]) => ({ index, ids: [...ids] }));
    const write = (isIt: (id: string) => boolean) =>
      letters
        .flatMap(({ index, ids }) => ids.filter(([id]) => isIt(id)).map(([, isDue]) => `${index}${isDue ? "!" : ""}`))
        .sort()
        .join();
    return stateKey(floor, {
      owed: (sessionId) => write((id) => id === sessionId),
      owedToGone: write((id) => !living.has(id)),
      inForce: this.#hours.at(floor.now),
      classes: this.#classes,
      clocksOf: (sessionId) => {
        const own = clocks.filter((clock) => clock.sessionId === sessionId);
        const about = own.map(({ moment, what, lengthMs, isHeld }) => ({
          moment,
          about: `${what} ${lengthMs}${isHeld ? " held" : ""}`,
        }));
        const sign = sessionId === undefined ? undefined : signs.get(sessionId);
        return sign ? [...about, { moment: sign.moment, about: sign.isFirst ? "lease" : "sign" }] : about;
      },
    });
  }

  /** Of the agents of a class that have no session on the floor, the first stands for all. */
  #newcomers = (floor: SteppedFloor): string[] => {
    const present = new Set(floor.sessions.map(({ context }) => context.numbers.agentId as string));
    const seen = new Set<string>();
    return [...floor.catalog.agents.values()].flatMap(({ id, enabled }) => {
      const name = `${this.#classes.get(id)} ${enabled}`;
      if (present.has(id)) return [id];
      if (seen.has(name)) return [];
      seen.add(name);
      return [id];
    });
  };
}

/** In the place of a claim that is not checked any more: the others keep their numbers. */
const NO_CLAIM: PolicyClaim = { name: "" };

interface Checked {
  /** Undefined if the actors broke. */
  readonly step?: SeenStep;
  readonly owed: Owed;
  readonly faults: readonly Omit<Violation, "moves">[];
}

/** Make a move, and compare it with the invariants and the claims. */
export function checkMove(
  before: SteppedFloor,
  move: ExploredMove,
  owed: Owed,
  claims: readonly PolicyClaim[],
  hours: HourCombinations,
): Checked {
  let step: SeenStep;
  try {
    step = makeMove(before, move, hours);
  } catch (error) {
    if (!(error instanceof BrokenActors)) throw error;
    return { owed, faults: [{ what: `the floor breaks: ${(error.cause as Error).message}` }] };
  }
  try {
    checkInvariants(step);
  } catch (error) {
    if (error instanceof Broken) return { step, owed, faults: [{ what: `invariant ${error.message}` }] };
    throw error;
  }
  const { owed: next, broken } = checkClaims(step, owed, claims);
  const faults = broken.map(({ claim, what }) => ({ what: `claim “${claim.name}”: ${what}`, claim }));
  return { step, owed: next, faults };
}

function pathTo(node: Node): TimedMove[] {
  const moves: TimedMove[] = [];
  for (let each: Node | undefined = node; each?.by; each = each.parent) moves.push(each.by);
  return moves.reverse();
}

/** The flags, hours and agents that a catalogue's rules depend on. */
export function variationsOf(catalog: Catalog): Variations {
  const flags = [...catalog.restrictions, ...catalog.priorityRules].flatMap(({ when }) => when ?? []);
  const hours = new HourCombinations(catalog, EXPLORED_FROM).all;
  const disables = [...catalog.agents.values()].filter(({ enabled, critical }) => enabled && !critical);
  return {
    flags: [...new Set(flags)],
    hours: hours.length > 1 ? hours : [],
    disables: disables.map(({ id }) => id),
  };
}
