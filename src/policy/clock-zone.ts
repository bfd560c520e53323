import {
  areTied,
  type Bounds,
  type Constraint,
  choose,
  chooseBeside,
  forgetLong,
  includes,
  isAmong,
  ONLY_NOW,
  project,
  tighten,
  withMoment,
} from "./moments.ts";
import { lapseMs, type SteppedFloor } from "./stepped-floor.ts";

/** Something that is compared with the present: a deadline, or how long a participant's program has been alive. */
interface Clock {
  readonly sessionId: string | undefined;
  readonly what: string;
  /** The index of its moment. */
  readonly moment: number;
  readonly lengthMs: number;
  readonly isHeld: boolean;
}

/** When the program of a session gave its last sign of life that the session's user or its request shows. */
interface Sign {
  readonly moment: number;
  /** It is the beginning of the lease, so that the lease may run out without a further sign. */
  readonly isFirst: boolean;
}

/**
 * All floors that differ only in when their states began: one of them, and the bounds between the moments of all. The
 * last moment is the present.
 */
export interface ClockZone {
  readonly floor: SteppedFloor;
  readonly bounds: Bounds;
  /** By moment: when it is on `floor`. */
  readonly values: readonly number[];
  /** By moment: the step of the sequence at which it is. */
  readonly steps: readonly number[];
  readonly clocks: readonly Clock[];
  readonly signs: ReadonlyMap<string, Sign>;
}

/** A way in which time may pass before something happens. */
export interface Passage {
  /** The floor when it happens, before it does. */
  readonly floor: SteppedFloor;
  readonly happens: "anything" | "deadline" | "lapse";
  /** The session that lapses. */
  readonly sessionId?: string | undefined;
  readonly bounds: Bounds;
  readonly values: readonly number[];
  /** How the moment of the step is bounded, by the numbers of steps. */
  readonly constraints: readonly Constraint[];
}

/** The first state, at the beginning of a sequence. */
export const firstClockZone = (floor: SteppedFloor): ClockZone => ({
  floor,
  bounds: ONLY_NOW,
  values: [floor.time],
  steps: [0],
  clocks: [],
  signs: new Map(),
});

/**
 * Every way in which time may pass: until something happens before the next deadline; until each of the deadlines that
 * may come first; until the lease of a dead program runs out, at any moment at which it may.
 * @param step the index of the step that follows
 */
export function passagesFrom(zone: ClockZone, step: number): Passage[] {
  const { clocks, signs, floor } = zone;
  const coming = clocks.filter(({ isHeld }) => !isHeld);
  const before = (others: readonly Clock[], isStrict: boolean) =>
    others.map((other): Constraint => ({ later: NOW, earlier: other.moment, most: other.lengthMs, isStrict }));
  const found: Passage[] = [];
  const add = (happens: Passage["happens"], edges: readonly Constraint[], sessionId?: string) => {
    let isPossible = false;
    for (const held of heldCases(clocks)) {
      const passage = pass(zone, step, [...edges, ...held]);
      if (passage) found.push({ ...passage, happens, sessionId });
      isPossible ||= passage !== undefined;
    }
    return isPossible;
  };
  add("anything", before(coming, true));
  for (const clock of coming) {
    const others = coming.filter((other) => other !== clock);
    const edges = exactly(clock.moment, clock.lengthMs);
    // Those that come at the same time come one after the other in any case, unless they always do: only these may.
    if (add("deadline", [...edges, ...before(others, true)])) continue;
    const atOnce = [...edges, ...before(others, false)];
    const isLater = (other: Clock) => boundsOf(zone, [...atOnce, ...before([other], true)]) !== undefined;
    add("deadline", [...atOnce, ...before(others.filter(isLater), true)]);
  }
  for (const [sessionId, { moment, isFirst }] of signs) {
    const { lease } = floor.session(sessionId)!.context;
    if (!lease || floor.isDead(sessionId)) continue;
    const rest = before(coming, true);
    // A program that dies at once lapses after one and a half leases. One that lives on gives a sign of life that
    // counts after half a lease at the earliest.
    if (isFirst) add("lapse", [...exactly(moment, lapseMs(lease.lengthMs)), ...rest], sessionId);
    add("lapse", [{ later: moment, earlier: NOW, most: -2 * lease.lengthMs }, ...rest], sessionId);
  }
  return found;
}

/** The moment of the step that follows. */
const NOW = -1;

const exactly = (moment: number, ms: number): Constraint[] => [
  { later: NOW, earlier: moment, most: ms },
  { later: moment, earlier: NOW, most: -ms },
];

/** A deadline that is held may be over or not when it is no longer held: each is a case. */
function heldCases(clocks: readonly Clock[]): readonly (readonly Constraint[])[] {
  let cases: readonly (readonly Constraint[])[] = [[]];
  for (const { moment, lengthMs, isHeld } of clocks) {
    if (!isHeld) continue;
    cases = cases.flatMap((edges) => [
      [...edges, { later: NOW, earlier: moment, most: lengthMs, isStrict: true }],
      [...edges, { later: moment, earlier: NOW, most: -lengthMs }],
    ]);
  }
  return cases;
}

/** The constraints with the numbers of moments: the step that follows comes after all of them. */
function numbered({ values: { length: present } }: ClockZone, edges: readonly Constraint[]): Constraint[] {
  return [{ later: present - 1, earlier: NOW, most: 0 }, ...edges].map((edge: Constraint) => ({
    ...edge,
    later: edge.later === NOW ? present : edge.later,
    earlier: edge.earlier === NOW ? present : edge.earlier,
  }));
}

const boundsOf = (zone: ClockZone, edges: readonly Constraint[]): Bounds | undefined =>
  tighten(withMoment(zone.bounds), numbered(zone, edges));

function pass(zone: ClockZone, step: number, edges: readonly Constraint[]): Omit<Passage, "happens"> | undefined {
  const { values, floor, steps } = zone;
  const present = values.length;
  const bounds = boundsOf(zone, edges);
  if (!bounds) return undefined;
  const stepOf = (moment: number) => (moment === present ? step : steps[moment]!);
  const constraints = numbered(zone, edges).map((each) => ({
    ...each,
    later: stepOf(each.later),
    earlier: stepOf(each.earlier),
  }));
  const isStill = isAmong(values, project(bounds, [...values.keys()]));
  const time = isStill ? chooseBeside(bounds, present, new Map(values.entries())) : undefined;
  const extended = time === undefined ? undefined : [...values, time];
  // After many steps before one deadline, the moment next to it is too near to be told from it.
  if (extended && isAmong(extended, bounds) && !areTied(extended, bounds))
    return { floor: floor.at(time!), bounds, values: extended, constraints };
  const chosen = choose(bounds, floor.time);
  const moved = new Map(values.map((value, moment) => [value, chosen[moment]!]));
  const now = chosen[present]!;
  return {
    floor: floor.retimed(now, (moment) => moved.get(moment) ?? Math.min(moment, now)),
    bounds,
    values: chosen,
    constraints,
  };
}

/**
 * The zone after a step: new states began at its moment, and deadlines that have not come are later.
 * @param own the session whose user or program made the step
 * @throws Error if a deadline counts from a moment at which no step was
 */
export function clockZoneAfter(
  zone: ClockZone,
  passage: Passage,
  after: SteppedFloor,
  step: number,
  own?: string,
): ClockZone {
  const { values } = passage;
  const present = values.length - 1;
  const steps = [...zone.steps, step];
  const clocks = clocksOf(after, values);
  const signs = signsAfter(zone, passage, after, own);
  const pending = clocks.filter(({ isHeld, moment }) => !isHeld && moment !== present);
  const later = pending.map(({ moment, lengthMs }) => ({
    later: present,
    earlier: moment,
    most: lengthMs,
    isStrict: true,
  }));
  const bounds = tighten(passage.bounds, later);
  if (!bounds) throw new Error("a deadline that has come is still there");
  const compared = [
    ...clocks.map(({ moment, lengthMs }) => [moment, lengthMs] as const),
    ...[...signs].map(([id, { moment }]) => [moment, 2 * after.session(id)!.context.lease!.lengthMs] as const),
  ];
  const longest = new Map<number, number>();
  for (const [moment, ms] of compared) longest.set(moment, Math.max(longest.get(moment) ?? 0, ms));
  const kept = [...longest.keys()].sort((one, other) => one - other);
  // A moment that is the present stays one of those that matter when the present moves on.
  const rest = [...kept, present];
  const index = (moment: number) => rest.indexOf(moment);
  return {
    floor: after,
    bounds: forgetLong(project(bounds, rest), [...kept.map((moment) => longest.get(moment)!), 0]),
    values: rest.map((moment) => values[moment]!),
    steps: rest.map((moment) => steps[moment]!),
    clocks: clocks.map((clock) => ({ ...clock, moment: index(clock.moment) })),
    signs: new Map([...signs].map(([id, sign]) => [id, { ...sign, moment: index(sign.moment) }])),
  };
}

/** @param values by moment: when it is on the floor */
function clocksOf(floor: SteppedFloor, values: readonly number[]): Clock[] {
  return floor.deadlines.map(({ sessionId, what, since, lengthMs, isHeld }) => {
    const moment = values.indexOf(since);
    if (moment < 0) throw new Error(`${what} of ${sessionId} counts from a moment at which nothing happened`);
    return { sessionId, what, moment, lengthMs, isHeld };
  });
}

function signsAfter(
  zone: ClockZone,
  passage: Passage,
  after: SteppedFloor,
  own: string | undefined,
): Map<string, Sign> {
  const signs = new Map<string, Sign>();
  for (const { context } of after.sessions) {
    const { id, lease } = context;
    if (!lease || after.isDead(id)) continue;
    const known = passage.floor.session(id)?.context.lease ? zone.signs.get(id) : undefined;
    const isLater = !known || own === id;
    signs.set(id, isLater ? { moment: passage.values.length - 1, isFirst: !known } : known);
  }
  return signs;
}

/** The bounds of a zone with the moments in the order of a state's key, and the present last. */
export const boundsInOrder = ({ bounds, values }: ClockZone, clocks: readonly number[]): Bounds =>
  project(bounds, [...clocks, values.length - 1]);

/** Zones by state. A zone that lies within one that was there before is known. */
export class SeenClockZones {
  readonly #zones = new Map<string, Bounds[]>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** @returns whether it is new */
  add(key: string, bounds: Bounds): boolean {
    const known = this.#zones.get(key);
    if (known?.some((each) => includes(each, bounds))) return false;
    this.#count += 1;
    // A zone within the new one need not be compared any more.
    this.#zones.set(key, [...(known?.filter((each) => !includes(bounds, each)) ?? []), bounds]);
    return true;
  }
}
