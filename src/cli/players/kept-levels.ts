/**
 * What the bridge has changed on this machine, on disk before it is changed: a bridge that is killed puts it back when
 * it starts again.
 */

import { z } from "zod";
import { dropKept, readKept, writeKept } from "../kept-file.ts";

/** How many entries are kept; the oldest is dropped. A desktop has some ten streams. */
const MAX_ENTRIES = 256;

/** A number of the sound server; JSON has no infinity. */
const Db = z.number().max(0).nullable();
const Values = z.array(z.number()).max(64);

const Level = z.object({
  /** The stream's number on the sound server. */
  index: z.number().int(),
  /** The process of the stream; absent if unknown. */
  pid: z.number().int().optional(),
  /** The name under which the sound server keeps the level for the next stream of the program, or of its role. */
  keptAs: z.string().optional(),
  /** The values of its dial without the bridge. */
  own: Values,
  /** All values that the bridge may have left. Other values are the user's, and stay. `byDb` null: silent. */
  turned: z.array(z.object({ byDb: Db, values: Values })),
});
/** A stream that the bridge has made quieter. */
export type KeptLevel = z.infer<typeof Level>;

const StoredPlayer = z.object({
  pid: z.number().int(),
  /** Distinguishes two processes with one number. */
  startedAt: z.string(),
  sessionId: z.string().optional(),
  /** The bridge has paused it, and it is to play again. */
  isPausedHere: z.boolean(),
  /** When the bridge was last known to run, on the machine's own clock in ms. */
  seenAt: z.number(),
});
/** What the next bridge has to know of a player. */
export type KeptPlayer = z.infer<typeof StoredPlayer>;

const Kept = z.object({ levels: z.array(Level), players: z.array(StoredPlayer) });

export class KeptLevels {
  readonly #path: string;
  #levels: readonly KeptLevel[];
  #players: readonly KeptPlayer[];

  /** @param path the file; its folder is made. What cannot be read counts as empty. */
  constructor(path: string) {
    this.#path = path;
    const { levels, players } = readKept(path, Kept.parse) ?? { levels: [], players: [] };
    this.#levels = levels;
    this.#players = players;
  }

  get levels(): readonly KeptLevel[] {
    return this.#levels;
  }

  get players(): readonly KeptPlayer[] {
    return this.#players;
  }

  /** Keep the level of a stream, in place of an earlier one. On disk when it returns. */
  put(level: KeptLevel): void {
    this.#levels = [...this.#levels.filter(({ index }) => index !== level.index), level].slice(-MAX_ENTRIES);
    this.#write();
  }

  /** Forget the levels of these streams. */
  drop(...indexes: readonly number[]): void {
    const left = this.#levels.filter(({ index }) => !indexes.includes(index));
    if (left.length === this.#levels.length) return;
    this.#levels = left;
    this.#write();
  }

  /** Keep a player, in place of what is kept of it. On disk when it returns. */
  putPlayer(player: KeptPlayer): void {
    this.#players = [...this.#players.filter((each) => !isSame(each, player)), player].slice(-MAX_ENTRIES);
    this.#write();
  }

  dropPlayer(player: Pick<KeptPlayer, "pid" | "startedAt">): void {
    const left = this.#players.filter((each) => !isSame(each, player));
    if (left.length === this.#players.length) return;
    this.#players = left;
    this.#write();
  }

  #write(): void {
    if (this.#levels.length === 0 && this.#players.length === 0) dropKept(this.#path);
    else writeKept(this.#path, { levels: this.#levels, players: this.#players });
  }
}

type ProcessOf = Pick<KeptPlayer, "pid" | "startedAt">;

const isSame = (one: ProcessOf, other: ProcessOf): boolean =>
  one.pid === other.pid && one.startedAt === other.startedAt;
