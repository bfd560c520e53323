import type { watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import type { Fault } from "../fault.ts";
import type { Catalog } from "./catalog.ts";
import { compareCatalogs } from "./catalog-change.ts";
import { type CatalogReading, loadCatalog } from "./catalog-file.ts";
import { FolderWatch } from "./folder-watch.ts";

export interface CatalogStatus {
  hash: string;
  /** When the catalogue in use was read, in ms since 1970. */
  loadedAt: number;
  /** Those of the file's current contents, while the previous catalogue remains in use. */
  faults?: readonly Fault[];
}

export interface WatchLog {
  info(facts: object, text: string): void;
  warn(facts: object, text: string): void;
  error(facts: object, text: string): void;
}

export interface WatchOptions {
  path: string;
  /** The catalogue read at boot. */
  initial: Catalog;
  clock: Clock;
  log: WatchLog;
  /** What a new catalogue changes for sessions, as lines for the log. Default: none. */
  describeChange?: (before: Catalog, after: Catalog) => readonly string[];
  /** Called with each new catalogue, after `current()` shows it. */
  onChange?: (catalog: Catalog) => void;
  /**
   * How long after an event of the folder the file is checked, and how long a changed file must stay the same before it
   * is read, in ms: a save causes several events, and a slow one shows parts of the file. Default 50.
   */
  stableMs?: number;
  /** The interval at which the file is checked without an event, in ms. Default 2000. */
  pollMs?: number;
  /** Reads the file; `known`: the catalogue in use. Default: `loadCatalog`. */
  load?: (path: string, known: Catalog) => Promise<CatalogReading>;
  /** Watches the folder. Default: `watch` of `node:fs`. */
  watch?: typeof watch;
}

const MISSING = "missing";
/** Polls that must see the same file: the first may come right after an event, the second comes one interval later. */
const ENOUGH = 2;

/**
 * The catalogue of a file. A valid file replaces the whole catalogue: call `current()` for each decision. An invalid or
 * missing file changes nothing; it is logged and reported by `status()`.
 *
 * Two methods are combined. Watching the folder detects files that are renamed into place and links that are switched,
 * where a watch on the file would stay with the old file. Polling the file detects changes behind links into other
 * folders, on network drives, and in a replaced folder.
 *
 * The first event ends the watch until the file is checked. If the folder also has a database, each commit causes
 * several events, and each of them would wake the main thread.
 */
export class WatchedCatalog {
  readonly #options: WatchOptions;
  readonly #soon: OneTimer;
  readonly #poll: OneTimer;
  readonly #folder: FolderWatch;
  readonly #file: SeenFile;
  #catalog: Catalog;
  #loadedAt: number;
  #faults: readonly Fault[] | undefined;
  /** Checks run one at a time, in order. */
  #looking = Promise.resolve();
  #isClosed = false;

  constructor(options: WatchOptions) {
    const { path, initial, clock, log, stableMs = 50, pollMs = 2_000 } = options;
    this.#options = options;
    this.#catalog = initial;
    this.#loadedAt = clock.now();
    this.#file = new SeenFile(stableMs);
    this.#soon = new OneTimer(clock, stableMs, () => void this.#lookSoon());
    this.#poll = new OneTimer(clock, pollMs, () => void this.#lookByPoll());
    const folder = dirname(path);
    this.#folder = new FolderWatch({
      folder,
      begin: options.watch,
      onEvent: () => this.#soon.ensure(),
      onFailure: (error) =>
        log.warn({ err: error, folder }, "the catalogue's folder cannot be watched; the file is polled"),
    });
    this.#poll.ensure();
    void this.#folder.mend();
    // Detect a change between the read at boot and now.
    void this.#look(false);
  }

  current(): Catalog {
    return this.#catalog;
  }

  /** For `/ready`. */
  status(): CatalogStatus {
    return {
      hash: this.#catalog.hash,
      loadedAt: this.#loadedAt,
      ...(this.#faults && { faults: this.#faults }),
    };
  }

  /** Stop watching. After it resolves, nothing is logged or changed. */
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
    const { path, clock, load = loadCatalog } = this.#options;
    const signature = await signatureOf(path);
    if (this.#isClosed) return;
    if (!this.#file.isStable(signature, clock.now())) return this.#soon.ensure();
    if (!this.#file.isDue(isPoll)) return;
    const reading = await load(path, this.#catalog);
    const isTorn = (await signatureOf(path)) !== signature;
    if (this.#isClosed) return;
    this.#file.isUnreadable = !reading.ok && reading.unreadable === "refused";
    if (isTorn) this.#soon.ensure();
    else this.#apply(reading);
  }

  #apply(reading: CatalogReading): void {
    const { path, clock, log, describeChange, onChange } = this.#options;
    const { hash } = this.#catalog;
    if (!reading.ok) {
      if (JSON.stringify(reading.faults) === JSON.stringify(this.#faults)) return;
      this.#faults = reading.faults;
      log.error({ path, hash, faults: reading.faults }, "the catalogue has faults; the previous one stays in use");
      return;
    }
    const hadFaults = this.#faults !== undefined;
    this.#faults = undefined;
    const { catalog } = reading;
    if (catalog.hash === hash) {
      if (hadFaults) log.info({ path, hash }, "the catalogue has no faults again and is unchanged");
      return;
    }
    const change = compareCatalogs(this.#catalog, catalog);
    const matrix = describeChange?.(this.#catalog, catalog);
    this.#catalog = catalog;
    this.#loadedAt = clock.now();
    log.info({ path, hash: catalog.hash, ...change, ...(matrix && { matrix }) }, "the catalogue was replaced");
    try {
      onChange?.(catalog);
    } catch (error) {
      log.error({ err: error }, "a catalogue listener failed");
    }
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
