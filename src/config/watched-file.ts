import type { watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import { FolderWatch } from "./folder-watch.ts";

export interface WatchedFileOptions<Reading> {
  path: string;
  /** Further files that the reading depends on: they are polled. Default: none. */
  others?: (() => readonly string[]) | undefined;
  clock: Clock;
  /** Reads the file. Never rejects. */
  load: () => Promise<Reading>;
  /** Called with each reading of a file that may have changed, and did not change meanwhile. */
  apply: (reading: Reading) => void;
  /** Whether the file could not be read for a reason that may pass without a change of it: each poll retries. */
  isUnreadable: (reading: Reading) => boolean;
  /** Called with each new reason why the folder cannot be watched; the file is polled then. */
  onUnwatchable: (error: Error, folder: string) => void;
  /**
   * How long after an event of the folder the file is checked, and how long a changed file must stay the same before it
   * is read, in ms: a save causes several events, and a slow one shows parts of the file. Default 50.
   */
  stableMs?: number | undefined;
  /** The interval at which the file is checked without an event, in ms. Default 2000. */
  pollMs?: number | undefined;
  /** Watches the folder. Default: `watch` of `node:fs`. */
  watch?: typeof watch | undefined;
}

const MISSING = "missing";
/** Polls that must see the same file: the first may come right after an event, the second comes one interval later. */
const ENOUGH = 2;

/**
 * Reads a file whenever it may have changed. Two methods are combined. Watching the folder detects files that are
 * renamed into place and links that are switched, where a watch on the file would stay with the old file. Polling the
 * file detects changes behind links into other folders, on network drives, and in a replaced folder.
 *
 * The first event ends the watch until the file is checked. If the folder also has a database, each commit causes
 * several events, and each of them would wake the main thread.
 */
export class WatchedFile<Reading> {
  readonly #options: WatchedFileOptions<Reading>;
  readonly #soon: OneTimer;
  readonly #poll: OneTimer;
  readonly #folder: FolderWatch;
  readonly #file: SeenFile;
  /** Checks run one at a time, in order. */
  #looking = Promise.resolve();
  #isClosed = false;

  constructor(options: WatchedFileOptions<Reading>) {
    const { path, clock, onUnwatchable, stableMs = 50, pollMs = 2_000 } = options;
    this.#options = options;
    this.#file = new SeenFile(stableMs);
    this.#soon = new OneTimer(clock, stableMs, () => void this.#lookSoon());
    this.#poll = new OneTimer(clock, pollMs, () => void this.#lookByPoll());
    const folder = dirname(path);
    this.#folder = new FolderWatch({
      folder,
      begin: options.watch,
      onEvent: () => this.#soon.ensure(),
      onFailure: (error) => onUnwatchable(error, folder),
    });
    this.#poll.ensure();
    void this.#folder.mend();
    // Detect a change between the first reading and now.
    void this.#look(false);
  }

  /** Stop watching. After it resolves, nothing is applied. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#soon.cancel();
    this.#poll.cancel();
    await Promise.all([this.#folder.close(), this.#looking]);
  }

  async #lookSoon(): Promise<void> {
    // Watching begins again before the check, so that no change falls between them.
    await this.#folder.mend();
    await this.#look(false);
  }

  async #lookByPoll(): Promise<void> {
    await Promise.all([this.#folder.mend(), this.#look(true)]);
    if (!this.#isClosed) this.#poll.ensure();
  }

  #look(isPoll: boolean): Promise<void> {
    this.#looking = this.#looking.then(() => (this.#isClosed ? undefined : this.#check(isPoll)));
    return this.#looking;
  }

  async #check(isPoll: boolean): Promise<void> {
    const { clock, load, apply, isUnreadable } = this.#options;
    const signature = await this.#signature();
    if (this.#isClosed) return;
    if (!this.#file.isStable(signature, clock.now())) return this.#soon.ensure();
    if (!this.#file.isDue(isPoll)) return;
    const reading = await load();
    const isTorn = (await this.#signature()) !== signature;
    if (this.#isClosed) return;
    this.#file.isUnreadable = isUnreadable(reading);
    if (isTorn) this.#soon.ensure();
    else apply(reading);
  }

  /** Of the file and of the others. A missing file counts as missing whatever the others are. */
  async #signature(): Promise<string> {
    const { path, others = () => [] } = this.#options;
    const [own = MISSING, ...rest] = await Promise.all([path, ...others()].map(signatureOf));
    return own === MISSING ? MISSING : [own, ...rest].join();
  }
}

/** The file's signature at the last check. */
class SeenFile {
  readonly #stableMs: number;
  #signature: string | undefined;
  /** Since when the signature is known, and how many later polls confirmed it. */
  #since = 0;
  #confirmations = 0;
  /** The last read failed for a reason that may pass without a change of the signature: each poll retries. */
  isUnreadable = false;

  constructor(stableMs: number) {
    this.#stableMs = stableMs;
  }

  /** Whether the signature stays the same for long enough that the file may be read. */
  isStable(signature: string, now: number): boolean {
    if (signature !== this.#signature) {
      this.#signature = signature;
      this.#since = now;
      this.#confirmations = 0;
      return false;
    }
    const ageMs = now - this.#since;
    // Part of a file may be a valid catalogue that lacks agents. A negative age: the clock was set back.
    return ageMs < 0 || ageMs >= this.#stableMs;
  }

  /**
   * Whether a stable file must be read. The file may change again within one tick of the file system's clock without a
   * new signature, so it is read again until polls have confirmed the signature.
   */
  isDue(isPoll: boolean): boolean {
    if (this.#confirmations === ENOUGH) return this.isUnreadable;
    if (isPoll) this.#confirmations++;
    // A file disappears for a moment when an editor replaces it: treat it as missing only when polls confirm it.
    return this.#signature !== MISSING || this.#confirmations === ENOUGH;
  }
}

/** A value that changes whenever the file behind the path changes; follows links. */
async function signatureOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(":");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" || code === "ENOTDIR" ? MISSING : `unreadable:${code}`;
  }
}

/** A single timer: `ensure` starts it unless it is running. */
class OneTimer {
  readonly #start: () => Timer;
  #timer: Timer | undefined;

  constructor(clock: Clock, delayMs: number, ring: () => void) {
    this.#start = () =>
      clock.after(delayMs, () => {
        this.#timer = undefined;
        ring();
      });
  }

  ensure(): void {
    this.#timer ??= this.#start();
  }

  cancel(): void {
    this.#timer?.cancel();
  }
}
