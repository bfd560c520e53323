/**
 * Makes the streams of players quieter, and puts them back. What is done is kept on disk first, with every value that a
 * stream may be left at: a value that is not one of these is somebody else's, and is never raised.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { KeptLevel, KeptLevels } from "./kept-levels.ts";
import type { DialPosition, SoundDial } from "./sound-dials.ts";
import type { SoundStream } from "./sound-streams.ts";

/** The length of a change, in ms, and its steps: a jump of 14 dB clicks. */
const RAMP_MS = 200;
const RAMP_STEPS = 5;
/** How often a change is read again, and the pause before, in ms: a program takes it a moment later. */
const READS = 50;
const READ_AGAIN_MS = 20;
/** How many names of programs and roles are remembered whose level the sound server may have kept. */
const MAX_REMEMBERED = 256;
/** How many positions of one stream are written down. */
const MAX_TURNED = 64;
const SILENT = Number.NEGATIVE_INFINITY;

/** How a player's streams are to sound. `isSilent`: those that sound although it is paused are silenced. */
export interface Loudness {
  /** Relative to the user's own volume, in dB: -60 to 0. */
  readonly level: number;
  readonly isSilent: boolean;
}

const OWN_LEVEL: Loudness = { level: 0, isSilent: false };

/** `isOwn`: whether a stream is the player's. Without a loudness its streams stay as they are. */
interface Wanted {
  readonly isOwn: (stream: SoundStream) => boolean;
  readonly loudness: Loudness | undefined;
}

/** A stream of the sound server, and what the mixer has changed of it. */
interface MixedStream {
  stream: SoundStream;
  /** The values of its dial without the bridge; undefined until they have been read. */
  own: readonly number[] | undefined;
  byDb: number;
  /** The values that the bridge set last. */
  values: readonly number[];
  working: Promise<void> | undefined;
  /** Something has changed since the work last looked. */
  isAsked: boolean;
}

export class Mixer {
  readonly #kept: KeptLevels;
  readonly #log: (why: string) => void;
  readonly #wanted = new Map<object, Wanted>();
  /** What was turned down since the bridge began, by the name under which the sound server keeps it. */
  readonly #remembered = new Map<string, KeptLevel>();
  /** The streams have been listed. */
  readonly #listed = Promise.withResolvers<void>();
  #streams = new Map<number, MixedStream>();
  #dial: SoundDial | undefined;

  /** @param log receives what the sound server refuses, as a sentence */
  constructor(kept: KeptLevels, log: (why: string) => void) {
    this.#kept = kept;
    this.#log = log;
  }

  /** Nothing is changed before. */
  start(dial: SoundDial): void {
    this.#dial = dial;
  }

  /**
   * The loudness of a player, for its present and its future streams.
   * @param player identifies the player
   * @param loudness undefined: leave its streams as a former bridge left them
   */
  set(player: object, isOwn: (stream: SoundStream) => boolean, loudness: Loudness | undefined): void {
    this.#wanted.set(player, { isOwn, loudness });
    for (const mixed of this.#streams.values()) if (isOwn(mixed.stream)) this.#work(mixed);
  }

  /** The player is gone, or no longer takes part: its streams get their own level back. */
  release(player: object): void {
    this.#wanted.delete(player);
    for (const mixed of this.#streams.values()) this.#work(mixed);
  }

  /**
   * Wait until a player's streams sound as is wanted now.
   * @returns whether it has streams, and all of them are so many dB below their own level
   */
  async isAt(player: object, level: number): Promise<boolean> {
    await this.#listed.promise;
    const own = [...this.#streams.values()].filter(({ stream }) => this.#wanted.get(player)?.isOwn(stream));
    await Promise.all(own.map(({ working }) => working));
    return own.length > 0 && own.every(({ byDb }) => byDb === level);
  }

  /** Take note of the sound server's streams. A new stream of a quieter player is made quieter at once. */
  note(streams: readonly SoundStream[]): void {
    const next = new Map<number, MixedStream>();
    for (const stream of streams) {
      const known = this.#streams.get(stream.index);
      if (known) known.stream = stream;
      next.set(
        stream.index,
        known ?? { stream, own: undefined, byDb: 0, values: [], working: undefined, isAsked: false },
      );
    }
    this.#streams = next;
    // The sound server keeps nothing of these for a next stream.
    const ended = this.#kept.levels.filter(({ index, keptAs }) => keptAs === undefined && !next.has(index));
    this.#kept.drop(...ended.map(({ index }) => index));
    for (const mixed of next.values()) this.#work(mixed);
    this.#listed.resolve();
  }

  /** Put everything back. */
  async restore(): Promise<void> {
    this.#wanted.clear();
    for (const mixed of this.#streams.values()) this.#work(mixed);
    await Promise.all([...this.#streams.values()].map(({ working }) => working));
  }

  /** By how many dB a stream is to be quieter; undefined: as it is. */
  #wantedOf({ stream, byDb }: MixedStream): number | undefined {
    for (const { isOwn, loudness } of this.#wanted.values()) {
      if (!isOwn(stream)) continue;
      if (!loudness) return undefined;
      // A stream that its program has paused needs no silence, but keeps it.
      return loudness.isSilent && (!stream.isCorked || byDb === SILENT) ? SILENT : loudness.level;
    }
    return OWN_LEVEL.level;
  }

  #work(mixed: MixedStream): void {
    const dial = this.#dial;
    if (!dial) return;
    mixed.isAsked = true;
    mixed.working ??= this.#approach(mixed, dial)
      .catch(async (error: unknown) => {
        // A stream that has ended meanwhile refuses everything; it needs nothing.
        const present = await dial.read(mixed.stream).catch(() => undefined);
        if (present) this.#log(`a volume could not be changed: ${(error as Error).message.trim()}`);
      })
      .finally(() => {
        mixed.working = undefined;
        if (mixed.isAsked) this.#work(mixed);
      });
  }

  /** Change the stream until it is as wanted. */
  async #approach(mixed: MixedStream, dial: SoundDial): Promise<void> {
    for (;;) {
      mixed.isAsked = false;
      const isOwn = mixed.own !== undefined && mixed.byDb === 0 && !this.#inherits(mixed.stream);
      if (isOwn && this.#wantedOf(mixed) === 0) return;
      if (!(await this.#look(mixed, dial))) return;
      const wanted = this.#wantedOf(mixed);
      if (wanted === undefined || wanted === mixed.byDb) return;
      if (!(await this.#ramp(mixed, dial, wanted))) return;
    }
  }

  /** Whether the sound server may have given it the level of another stream that is or was quieter. */
  #inherits({ keptAs }: SoundStream): boolean {
    if (keptAs === undefined) return false;
    return this.#remembered.has(keptAs) || this.#kept.levels.some((level) => level.keptAs === keptAs);
  }

  /** Read the dial, which others may have turned. @returns whether the stream still exists */
  async #look(mixed: MixedStream, dial: SoundDial): Promise<boolean> {
    const present = await dial.read(mixed.stream);
    if (!present) return false;
    const { own, byDb, values } = mixed;
    if (own !== undefined && byDb !== 0 && dial.isSame(present, values)) return true;
    const left = this.#find(mixed.stream, present, dial);
    if (left) Object.assign(mixed, left);
    else if (own !== undefined && byDb !== 0) Object.assign(mixed, dial.adopt(present, { own, byDb }));
    else mixed.own = present;
    mixed.values = present;
    if (byDb !== 0 || mixed.byDb !== 0) this.#keep(mixed, []);
    return true;
  }

  /** What the bridge, or a former one, has left of this stream, or of another one whose level the sound server kept. */
  #find(stream: SoundStream, present: readonly number[], dial: SoundDial): DialPosition | undefined {
    const { index, keptAs, pids } = stream;
    const isOf = (level: KeptLevel) =>
      (level.index === index && isOfProcess(level, pids)) || (keptAs !== undefined && level.keptAs === keptAs);
    const remembered = keptAs === undefined ? undefined : this.#remembered.get(keptAs);
    for (const level of [...this.#kept.levels.filter(isOf), ...(remembered ? [remembered] : [])]) {
      // A volume of 0 is the user's own at every level.
      if (dial.isSame(level.own, present)) continue;
      const found = level.turned.find(({ values }) => dial.isSame(values, present));
      if (found) return { own: level.own, byDb: found.byDb ?? SILENT };
    }
    return undefined;
  }

  /** Turn the dial in steps. @returns whether the stream still exists */
  async #ramp(mixed: MixedStream, dial: SoundDial, wanted: number): Promise<boolean> {
    const isRaised = wanted > mixed.byDb;
    const steps = stepsBetween(mixed.byDb, wanted);
    this.#keep(mixed, steps);
    const begunAt = performance.now();
    for (const [at, byDb] of steps.entries()) {
      const { own } = mixed;
      // Somebody else may have turned it since the last step.
      if (at > 0 && dial.isUsers && !(await this.#look(mixed, dial))) return false;
      if (!dial.isSame(own!, mixed.own!)) return true;
      const below = dial.below(mixed.own!, byDb);
      // What its user has raised meanwhile stays so.
      const values = isRaised ? below.map((value, channel) => Math.max(value, mixed.values[channel]!)) : below;
      await dial.turn(mixed.stream, values);
      Object.assign(mixed, { byDb, values });
      if (byDb === wanted || this.#wantedOf(mixed) !== wanted) break;
      // The calls take a part of the time.
      await sleep(Math.max(0, begunAt + ((at + 1) * RAMP_MS) / RAMP_STEPS - performance.now()));
    }
    if (!(await isTaken(mixed, dial))) return false;
    this.#keep(mixed, []);
    return true;
  }

  /** Write down the values that the stream has, and those that it is about to get. */
  #keep({ stream, own, byDb }: MixedStream, next: readonly number[]): void {
    const { index, pids, keptAs } = stream;
    const all = [byDb, ...next].filter((db) => db !== 0);
    if (all.length === 0) return this.#kept.drop(index, ...this.#endedAs(keptAs));
    const former = this.#kept.levels.find((level) => level.index === index) ?? this.#remembered.get(keptAs ?? "");
    const level: KeptLevel = {
      index,
      ...(pids[0] !== undefined && { pid: pids[0] }),
      ...(keptAs !== undefined && { keptAs }),
      own: [...own!],
      turned: this.#turned(own!, all, former),
    };
    this.#kept.put(level);
    if (keptAs === undefined) return;
    this.#remembered.delete(keptAs);
    this.#remembered.set(keptAs, level);
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size > MAX_REMEMBERED) this.#remembered.delete(oldest!);
  }

  /** These positions, and former ones: a program may start with the value that another one had a moment ago. */
  #turned(own: readonly number[], all: readonly number[], former: KeptLevel | undefined): KeptLevel["turned"] {
    const now = all.map((db) => ({ byDb: db === SILENT ? null : db, values: this.#dial!.below(own, db) }));
    const isOfOwn = former?.own.join() === own.join();
    const others = isOfOwn ? former!.turned.filter(({ byDb }) => !now.some((one) => one.byDb === byDb)) : [];
    return [...others, ...now].slice(-MAX_TURNED);
  }

  /** Streams that have ended, and whose level the sound server has now exchanged for this one's. */
  #endedAs(keptAs: string | undefined): number[] {
    const ended = this.#kept.levels.filter((level) => level.keptAs === keptAs && !this.#streams.has(level.index));
    return keptAs === undefined ? [] : ended.map(({ index }) => index);
  }
}

/** A change from or to silence is one step: it has no levels between. */
function stepsBetween(from: number, to: number): number[] {
  const count = from === SILENT || to === SILENT ? 1 : RAMP_STEPS;
  return Array.from({ length: count }, (_, at) => (at === count - 1 ? to : from + ((to - from) * (at + 1)) / count));
}

/** @returns whether the stream still exists. @throws Error if the sound server has not done what it was asked for */
async function isTaken({ stream, values }: MixedStream, dial: SoundDial): Promise<boolean> {
  for (let reads = 1; ; reads += 1) {
    const present = await dial.read(stream);
    if (!present) return false;
    if (dial.isSame(present, values)) return true;
    if (reads === READS) throw new Error("the sound server has not taken it");
    await sleep(READ_AGAIN_MS);
  }
}

const isOfProcess = ({ pid }: KeptLevel, pids: readonly number[]): boolean =>
  pid === undefined || pids.length === 0 || pids[0] === pid;
