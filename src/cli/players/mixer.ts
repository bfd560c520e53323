/**
 * Makes the streams of players quieter, and puts them back. Changes are relative to the volume that the user has set,
 * and a volume that the user changes meanwhile stays changed. What is done is kept on disk first.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { KeptLevel, KeptLevels } from "./kept-levels.ts";
import { changeVolume, listStreams, type SoundStream, setMute, setVolume } from "./sound-streams.ts";

/** The length of a change, in ms, and its steps: a jump of 14 dB clicks. */
const RAMP_MS = 200;
const RAMP_STEPS = 5;

/** How a player's streams are to sound. `silent`: mute them, for a player that cannot pause. */
export interface Loudness {
  /** Relative to the user's own volume, in dB: -60 to 0. */
  readonly level: number;
  readonly isSilent: boolean;
}

export const OWN_LEVEL: Loudness = { level: 0, isSilent: false };

/** A stream of the sound server, and what the mixer has changed of it. */
interface MixedStream {
  stream: SoundStream;
  appliedDb: number;
  isSilent: boolean;
  /** The bridge has muted it; a stream that its user had muted stays as it is. */
  isMutedHere: boolean;
  before: readonly number[];
  after?: readonly number[] | undefined;
  working: Promise<void> | undefined;
}

export class Mixer {
  readonly #kept: KeptLevels;
  readonly #log: (why: string) => void;
  readonly #wanted = new Map<object, { isOwn: (stream: SoundStream) => boolean; loudness: Loudness }>();
  #streams = new Map<number, MixedStream>();

  /** @param log receives what the sound server refuses, as a sentence */
  constructor(kept: KeptLevels, log: (why: string) => void) {
    this.#kept = kept;
    this.#log = log;
  }

  /**
   * The loudness of a player, for its present and its future streams.
   * @param player identifies the player
   */
  set(player: object, isOwn: (stream: SoundStream) => boolean, loudness: Loudness): void {
    this.#wanted.set(player, { isOwn, loudness });
    for (const mixed of this.#streams.values()) if (isOwn(mixed.stream)) this.#work(mixed);
  }

  /** The player is gone, or no longer takes part: its streams get their own level back. */
  release(player: object): void {
    const wanted = this.#wanted.get(player);
    this.#wanted.delete(player);
    if (!wanted) return;
    for (const mixed of this.#streams.values()) if (wanted.isOwn(mixed.stream)) this.#work(mixed);
  }

  /** Take note of the sound server's streams. A new stream of a quieter player is made quieter at once. */
  note(streams: readonly SoundStream[]): void {
    const next = new Map<number, MixedStream>();
    for (const stream of streams) {
      const known = this.#streams.get(stream.index);
      if (known) known.stream = stream;
      next.set(stream.index, known ?? newMixedStream(stream));
    }
    this.#streams = next;
    for (const mixed of next.values()) this.#work(mixed);
  }

  /** Put back what an earlier bridge has changed and did not put back. */
  async recover(): Promise<void> {
    if (this.#kept.levels.length === 0) return;
    const streams = await listStreams();
    for (const level of this.#kept.levels) {
      const stream = streams.find(({ index, pids }) => index === level.index && isOfProcess(level, pids));
      if (stream) await this.#putBack(level, stream);
    }
  }

  /** Put everything back. */
  async restore(): Promise<void> {
    this.#wanted.clear();
    for (const mixed of this.#streams.values()) this.#work(mixed);
    await Promise.all([...this.#streams.values()].map(({ working }) => working));
  }

  #loudnessOf(stream: SoundStream): Loudness {
    for (const { isOwn, loudness } of this.#wanted.values()) if (isOwn(stream)) return loudness;
    return OWN_LEVEL;
  }

  #work(mixed: MixedStream): void {
    mixed.working ??= this.#approach(mixed)
      .catch(async (error: unknown) => {
        // A stream that has ended meanwhile refuses everything; it needs nothing.
        if (await refresh(mixed).catch(() => false)) {
          this.#log(`a volume could not be changed: ${(error as Error).message.trim()}`);
        }
      })
      .finally(() => {
        mixed.working = undefined;
      });
  }

  /** Change the stream until it is as wanted. */
  async #approach(mixed: MixedStream): Promise<void> {
    await this.#inherit(mixed);
    for (;;) {
      const { level, isSilent } = this.#loudnessOf(mixed.stream);
      if (isSilent !== mixed.isSilent) await this.#mute(mixed, isSilent);
      else if (level !== mixed.appliedDb) await this.#ramp(mixed, level);
      else return;
    }
  }

  /** The sound server gives a program's next stream the volume of its last one, which may have been quieter. */
  async #inherit(mixed: MixedStream): Promise<void> {
    const { stream } = mixed;
    if (stream.keptAs === undefined || mixed.appliedDb < 0 || mixed.isSilent) return;
    const former = this.#kept.levels.find(
      ({ index, keptAs, after }) =>
        keptAs === stream.keptAs && !this.#streams.has(index) && (after === undefined || same(after, stream.volume)),
    );
    if (!former) return;
    await this.#putBack(former, stream);
    mixed.before = former.before;
  }

  async #mute(mixed: MixedStream, isSilent: boolean): Promise<void> {
    const { index, isMuted } = mixed.stream;
    if (isSilent && !isMuted) {
      this.#keep(mixed, { isMuted: true });
      await setMute(index, true);
      mixed.isMutedHere = true;
    } else if (!isSilent && mixed.isMutedHere) {
      await setMute(index, false);
      mixed.isMutedHere = false;
    }
    mixed.isSilent = isSilent;
    this.#keep(mixed, {});
  }

  async #ramp(mixed: MixedStream, level: number): Promise<void> {
    // The volume of the newest event may be that in the middle of an earlier change.
    if (!(await refresh(mixed))) throw new Error("the stream has ended");
    const { index, volume } = mixed.stream;
    const from = mixed.appliedDb;
    if (from === 0) mixed.before = volume;
    const isUnchanged = mixed.after !== undefined && same(mixed.after, volume);
    // Unknown until the end: if the stream ends before, the program's next one begins with any volume in between.
    mixed.after = undefined;
    this.#keep(mixed, { byDb: Math.min(from, level) });
    for (let step = 1; step <= RAMP_STEPS; step += 1) {
      const next = step === RAMP_STEPS ? level : from + ((level - from) * step) / RAMP_STEPS;
      await changeVolume(index, next - mixed.appliedDb);
      mixed.appliedDb = next;
      if (this.#loudnessOf(mixed.stream).level !== level) break;
      if (step < RAMP_STEPS) await sleep(RAMP_MS / RAMP_STEPS);
    }
    // Steps are rounded. Restore the exact level, unless the user has changed it meanwhile.
    if (mixed.appliedDb === 0 && isUnchanged) await setVolume(index, mixed.before);
    await refresh(mixed);
    mixed.after = mixed.appliedDb < 0 ? mixed.stream.volume : undefined;
    this.#keep(mixed, {});
  }

  /** Save the levels before a change, and after it. */
  #keep(mixed: MixedStream, next: { byDb?: number; isMuted?: boolean }): void {
    const byDb = next.byDb ?? mixed.appliedDb;
    const isMuted = next.isMuted ?? mixed.isMutedHere;
    const { index, pids, keptAs } = mixed.stream;
    if (byDb === 0 && !isMuted) return this.#kept.drop(index);
    this.#kept.put({
      index,
      ...(pids[0] !== undefined && { pid: pids[0] }),
      ...(keptAs !== undefined && { keptAs }),
      before: [...mixed.before],
      ...(mixed.after && { after: [...mixed.after] }),
      byDb,
      isMuted,
    });
  }

  async #putBack({ index, before, after, byDb, isMuted }: KeptLevel, stream: SoundStream): Promise<void> {
    if (isMuted && stream.isMuted) await setMute(stream.index, false);
    // Between the two volumes: the bridge ended within a change.
    const isOurs = stream.volume.every((value, channel) => value <= (before[channel] ?? value));
    if (byDb < 0 && isOurs && (after === undefined || same(after, stream.volume)))
      await setVolume(stream.index, before);
    else if (byDb < 0 && after !== undefined) await changeVolume(stream.index, -byDb);
    this.#kept.drop(index);
  }
}

const newMixedStream = (stream: SoundStream): MixedStream => ({
  stream,
  appliedDb: 0,
  isSilent: false,
  isMutedHere: false,
  before: stream.volume,
  working: undefined,
});

/** Read the stream's present volume. @returns whether the stream still exists */
async function refresh(mixed: MixedStream): Promise<boolean> {
  const now = (await listStreams()).find(({ index }) => index === mixed.stream.index);
  if (now) mixed.stream = now;
  return now !== undefined;
}

const same = (one: readonly number[], other: readonly number[]): boolean =>
  one.length === other.length && one.every((value, index) => value === other[index]);

const isOfProcess = ({ pid }: KeptLevel, pids: readonly number[]): boolean =>
  pid === undefined || pids.length === 0 || pids[0] === pid;
