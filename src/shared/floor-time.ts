import type { Clock } from "./ports/clock.ts";

declare const floorTime: unique symbol;

/**
 * A moment in a floor's time, in ms: as the wall clock, without its jumps. Deadlines are measured in it (rule C9). A
 * type of its own, so that the compiler refuses a moment of the wall clock (`now`) in its place.
 */
export type FloorTime = number & { readonly [floorTime]: true };

/** The moment so many ms after another one. */
export const later = (time: FloorTime, ms: number): FloorTime => (time + ms) as FloorTime;

export const latest = (one: FloorTime, other: FloorTime): FloorTime => (one > other ? one : other);

export const earliest = (one: FloorTime, other: FloorTime): FloorTime => (one < other ? one : other);

/** Its time only elapses, and never jumps. */
export interface FloorClock extends Clock {
  now(): FloorTime;
}

/** A node's clock, and how far it has jumped, in ms: the floors' time is the clock's without its jumps. Default: 0. */
export interface JumpingClock {
  clock: Clock;
  jumpedMs?: (() => number) | undefined;
}

export const jumpOf = ({ jumpedMs }: JumpingClock): number => jumpedMs?.() ?? 0;

/** The floors' time now. */
export const floorTimeOf = (source: JumpingClock): FloorTime => (source.clock.now() - jumpOf(source)) as FloorTime;
