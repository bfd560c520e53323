import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { NOTHING_OWED, type Owed } from "../../../src/policy/claims.ts";
import { checkMove, firstFloor, variationsOf } from "../../../src/policy/exploration.ts";
import { HourCombinations } from "../../../src/policy/hour-combinations.ts";
import { type ExploredMove, movesFrom, type Variations } from "../../../src/policy/moves.ts";
import { stateKey } from "../../../src/policy/state-key.ts";
import type { SteppedFloor } from "../../../src/policy/stepped-floor.ts";
import type { Chance } from "../runner/chance.ts";

const STEPS = 10;
/** Of what twins do together. */
const LATER_STEPS = 5;
/** Around the lengths of random catalogues, in ms. */
const PAUSES = [0, 0, 0, 0, 1_000, 2_000];
/** Sessions at a time: what a floor is reserved for is one of two that wait. */
const SIZES = [2, 2, 3];
/** Pairs of one key that are compared. */
const PAIRS = 4;
/** The same for both, with which a move may begin. */
const BEGUN = Date.UTC(2026, 0, 5, 12);

interface World {
  readonly catalog: Catalog;
  readonly hours: HourCombinations;
  readonly variations: Variations;
  /** Sessions at a time. */
  readonly size: number;
}

interface Place {
  readonly floor: SteppedFloor;
  readonly owed: Owed;
  /** The floor's sessions, in the order of its key. */
  readonly ids: readonly string[];
  /** How it came about. */
  readonly moves: readonly string[];
}

/** What happens next: a move by the place of its session, after so many ms. */
interface Next {
  readonly pauseMs: number;
  readonly move: ExploredMove;
  readonly place: number | undefined;
}

/**
 * Looks for states that the prover counts as one although unlike things can happen next: takes random walks, and lets
 * each two floors with the same key, whose deadlines come at the same time, do the same once more. Returns what
 * differs, for each kind of event once.
 */
export function unlikeTwins(catalog: Catalog, walks: number, chance: Chance): string[] {
  const known = new Map<string, { place: Place; others: number }>();
  const parts = { catalog, hours: new HourCombinations(catalog, BEGUN), variations: variationsOf(catalog) };
  const different = new Set<string>();
  for (let walk = 0; walk < walks; walk++) {
    const world: World = { ...parts, size: chance.pick(SIZES) };
    let place: Place = { floor: firstFloor(catalog), owed: NOTHING_OWED, ids: [], moves: [] };
    for (let step = 0; step < STEPS && different.size === 0; step++) {
      const next = randomMove(place, world, chance);
      if (!next) break;
      const { after } = make(place, next, world);
      if (!after) break;
      const { key, ids } = keyOf(after.floor, after.owed, world);
      place = { ...after, ids };
      const twin = known.get(key);
      if (!twin) known.set(key, { place, others: 0 });
      else if (twin.others < PAIRS && twin.place.moves.join() !== place.moves.join()) {
        twin.others += 1;
        const difference = compare(twin.place, place, world, chance);
        if (difference !== undefined) different.add(difference);
      }
    }
  }
  return [...different];
}

/** Let two floors do the same. @returns how they differ */
function compare(one: Place, other: Place, world: World, chance: Chance): string | undefined {
  let [left, right]: [Place, Place] = [one, other];
  for (let step = 0; step < LATER_STEPS; step++) {
    const next = randomMove(left, world, chance);
    if (!next) return undefined;
    const [told, shown] = [make(left, next, world), make(right, next, world)];
    if (told.events !== shown.events) {
      return `after “${one.moves.join(", ")}” and after “${other.moves.join(", ")}”, which have one key, ${nameOf(next)} is unlike: ${told.events} and ${shown.events}`;
    }
    if (!told.after || !shown.after) return undefined;
    const keys = [told.after, shown.after].map(({ floor, owed }) => keyOf(floor, owed, world));
    if (keys[0]!.key !== keys[1]!.key)
      return `${nameOf(next)} leads two states of one key to two keys: ${keys[0]!.key} and ${keys[1]!.key}`;
    left = { ...told.after, ids: keys[0]!.ids };
    right = { ...shown.after, ids: keys[1]!.ids };
  }
  return undefined;
}

const nameOf = ({ pauseMs, move, place }: Next): string =>
  [pauseMs > 0 ? `${pauseMs} ms later` : "", ...Object.values({ ...move, sessionId: undefined }), place]
    .filter((part) => part !== undefined && part !== "")
    .join(" ");

function randomMove(
  { floor, ids }: Place,
  { catalog, hours, variations, size }: World,
  chance: Chance,
): Next | undefined {
  const due = floor.nextDue();
  const leftMs = due === undefined ? Number.POSITIVE_INFINITY : due - floor.time;
  if (due !== undefined && chance.percent(30)) return { pauseMs: 0, move: { does: "wait" }, place: undefined };
  const pauseMs = Math.min(chance.pick(PAUSES), Math.max(0, leftMs - 1));
  const inForce = hours.at(floor.now);
  const other = variations.hours.filter((each) => each !== inForce);
  const agents = () => [...catalog.agents.keys()];
  const moves = [...movesFrom(floor, size, agents, { ...variations, hours: other })];
  for (const { context } of floor.sessions) if (context.lease) moves.push({ does: "dies", sessionId: context.id });
  if (moves.length === 0) return undefined;
  const move = chance.pick(moves);
  const isNew = isOfNew(move);
  return { pauseMs, move, place: "sessionId" in move && !isNew ? ids.indexOf(move.sessionId!) : undefined };
}

/** Whether the move begins a session. */
const isOfNew = (move: ExploredMove): boolean => move.does === "asks" || (move.does === "says" && "agentId" in move);

/** Make a move on a copy. @returns what readers see of it, with sessions by their place */
function make({ floor, owed, ids, moves }: Place, next: Next, { hours }: World) {
  const { pauseMs, place } = next;
  const before = pauseMs > 0 ? floor.at(floor.time + pauseMs) : floor;
  const isNew = isOfNew(next.move);
  // No id was used on either floor.
  const sessionId = isNew ? `n${moves.length}` : place === undefined ? undefined : ids[place]!;
  const move = { ...next.move, ...(sessionId !== undefined && { sessionId }) } as ExploredMove;
  const seen = checkMove(before, move, owed, floor.catalog.claims, hours);
  const placeOf = (id: unknown) => (ids.includes(id as string) ? ids.indexOf(id as string) : "new");
  const events = seen.step?.events.map((event) => {
    if (event.type === "decision") {
      const { outcome, reason, rule } = event.decision;
      return `${outcome} by ${rule} ${reason}`;
    }
    const { sessionId: id, from, to, event: name, level } = event.transition;
    return `${placeOf(id)} ${from}→${to} ${name} ${level ?? ""}`;
  });
  const broken = seen.faults.map(({ claim, what }) => claim?.name ?? what);
  const told = JSON.stringify([events ?? "broken", broken]);
  return {
    events: told,
    after: seen.step && { floor: seen.step.after, owed: seen.owed, moves: [...moves, nameOf(next)], ids },
  };
}

/** The prover's key, with how long ago each moment of it was. */
function keyOf(floor: SteppedFloor, owed: Owed, { catalog, hours }: World) {
  const ids: string[] = [];
  const living = new Set<string>(floor.sessions.map(({ context }) => context.id));
  const owedTo = (isIt: (id: string) => boolean) =>
    [...owed]
      .flatMap(([index, of]) => [...of].filter(([id]) => isIt(id)).map(([, isDue]) => `${index}${isDue}`))
      .sort()
      .join();
  const { text, clocks } = stateKey(floor, {
    owed: (sessionId) => owedTo((id) => id === sessionId),
    owedToGone: owedTo((id) => !living.has(id)),
    inForce: hours.at(floor.now),
    classes: new Map([...catalog.agents.keys()].map((id) => [id, id])),
    // It is called for each session in the order of the text.
    clocksOf: (sessionId) => {
      if (sessionId !== undefined) ids.push(sessionId);
      const own = floor.deadlines.filter((each) => each.sessionId === sessionId);
      return own.map(({ since, what, lengthMs, isHeld }) => ({
        moment: since,
        about: `${what} ${lengthMs} ${isHeld}`,
      }));
    },
  });
  return { key: [text, ...clocks.map((moment) => floor.time - moment)].join("|"), ids };
}
