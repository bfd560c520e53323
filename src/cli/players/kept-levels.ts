/**
 * What the bridge has changed on this machine, on disk before it is changed: a bridge that is killed puts it back when
 * it starts again.
 */

import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";

/** How many entries are kept; the oldest is dropped. A desktop has some ten streams. */
const MAX_ENTRIES = 256;

const Level = z.object({
  /** The stream's number on the sound server. */
  index: z.number().int(),
  /** The process of the stream; absent if unknown. */
  pid: z.number().int().optional(),
  /** The name under which the sound server keeps the volume for the next stream of the program. */
  keptAs: z.string().optional(),
  /** The volume of each channel before. */
  before: z.array(z.number().int()).max(64),
  /** The volume of each channel afterwards, as far as it is known. */
  after: z.array(z.number().int()).max(64).optional(),
  /** By how much it is made quieter, in dB: -60 to 0. */
  byDb: z.number().max(0),
  /** The bridge has muted it. */
  isMuted: z.boolean(),
});
export type KeptLevel = z.infer<typeof Level>;

const StoredSession = z.object({ pid: z.number().int(), startedAt: z.string(), sessionId: z.string() });
/** The session of a player. `startedAt` distinguishes two processes with one number. */
export type KeptSession = z.infer<typeof StoredSession>;

const Kept = z.object({ levels: z.array(Level), sessions: z.array(StoredSession) });

export class KeptLevels {
  readonly #path: string;
  #levels: KeptLevel[];
  #sessions: KeptSession[];

  /** @param path the file; its folder is made. What cannot be read counts as empty. */
  constructor(path: string) {
    this.#path = path;
    const { levels, sessions } = read(path);
    this.#levels = levels;
    this.#sessions = sessions;
  }

  get levels(): readonly KeptLevel[] {
    return this.#levels;
  }

  get sessions(): readonly KeptSession[] {
    return this.#sessions;
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

  putSession(session: KeptSession): void {
    const others = this.#sessions.filter(({ sessionId }) => sessionId !== session.sessionId);
    this.#sessions = [...others, session].slice(-MAX_ENTRIES);
    this.#write();
  }

  dropSession(sessionId: string): void {
    const left = this.#sessions.filter((session) => session.sessionId !== sessionId);
    if (left.length === this.#sessions.length) return;
    this.#sessions = left;
    this.#write();
  }

  #write(): void {
    if (this.#levels.length === 0 && this.#sessions.length === 0) return rmSync(this.#path, { force: true });
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const next = `${this.#path}.next`;
    const file = openSync(next, "w", 0o600);
    try {
      writeSync(file, JSON.stringify({ levels: this.#levels, sessions: this.#sessions }));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(next, this.#path);
  }
}

function read(path: string): z.infer<typeof Kept> {
  try {
    return Kept.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return { levels: [], sessions: [] };
  }
}
