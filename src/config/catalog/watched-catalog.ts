import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import type { Fault } from "../fault.ts";
import type { Catalog } from "./catalog.ts";
import { compareCatalogs } from "./catalog-change.ts";
import { type CatalogReading, loadCatalog } from "./catalog-file.ts";

/** The current catalogue. Call `current()` for each decision: a reload replaces the catalogue as a whole. */
export interface WatchedCatalog {
  current(): Catalog;
  /** For `/ready`. `faults`: those of the file's current contents, while the previous catalogue remains in use. */
  status(): CatalogStatus;
  /** Stop watching. After it resolves, nothing is logged or changed. */
  close(): Promise<void>;
}

export interface CatalogStatus {
  hash: string;
  /** When the catalogue in use was read, in ms since 1970. */
  loadedAt: number;
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
 * Watch a catalogue's file. A valid file replaces the whole catalogue. An invalid or missing file changes nothing; it
 * is logged and reported by `status()`.
 *
 * Two methods are combined. Watching the folder detects files that are renamed into place and links that are switched,
 * where a watch on the file would stay with the old file. Polling the file detects changes behind links into other
 * folders, on network drives, and in a replaced folder.
 *
 * The first event ends the watch until the file is checked. If the folder also has a database, each commit causes
 * several events, and each of them would wake the main thread.
 */
export function watchCatalog(options: WatchOptions): WatchedCatalog {
  const { path, clock, log, stableMs = 50, pollMs = 2_000, load = loadCatalog } = options;
  const folder = dirname(path);

  let catalog = options.initial;
  let loadedAt = clock.now();
  let faults: readonly Fault[] | undefined;
  let isClosed = false;

  /** The file's signature at the last check, since when it is known, and how many later polls confirmed it. */
  let signature: string | undefined;
  let signatureSince = 0;
  let confirmations = 0;
  /** The last read failed for a reason that may pass without a change of the signature: each poll retries. */
  let isUnreadable = false;

  function apply(reading: CatalogReading): void {
    if (!reading.ok) {
      if (JSON.stringify(reading.faults) === JSON.stringify(faults)) return;
      faults = reading.faults;
      log.error({ path, hash: catalog.hash, faults }, "the catalogue has faults; the previous one stays in use");
      return;
    }
    const hadFaults = faults !== undefined;
    faults = undefined;
    if (reading.catalog.hash === catalog.hash) {
      if (hadFaults) log.info({ path, hash: catalog.hash }, "the catalogue has no faults again and is unchanged");
      return;
    }
    const change = compareCatalogs(catalog, reading.catalog);
    const matrix = options.describeChange?.(catalog, reading.catalog);
    catalog = reading.catalog;
    loadedAt = clock.now();
    log.info({ path, hash: catalog.hash, ...change, ...(matrix && { matrix }) }, "the catalogue was replaced");
    try {
      options.onChange?.(catalog);
    } catch (error) {
      log.error({ err: error }, "a catalogue listener failed");
    }
  }

  /**
   * Whether the signature stays the same for long enough that the file may be read; if not, the file is checked again
   * soon.
   */
  function isStable(seen: string): boolean {
    if (seen !== signature) {
      signature = seen;
      signatureSince = clock.now();
      confirmations = 0;
      soon.ensure();
      return false;
    }
    const ageMs = clock.now() - signatureSince;
    // Part of a file may be a valid catalogue that lacks agents. A negative age: the clock was set back.
    if (ageMs < 0 || ageMs >= stableMs) return true;
    soon.ensure();
    return false;
  }

  /**
   * Whether an unchanged file must be read. The file may change again within one tick of the file system's clock
   * without a new signature, so it is read again until polls have confirmed the signature.
   */
  function isDue(seen: string, isPoll: boolean): boolean {
    if (confirmations === ENOUGH) return isUnreadable;
    if (isPoll) confirmations++;
    // A file disappears for a moment when an editor replaces it: treat it as missing only when polls confirm it.
    return seen !== MISSING || confirmations === ENOUGH;
  }

  async function look(isPoll: boolean): Promise<void> {
    const seen = await signatureOf(path);
    if (isClosed || !isStable(seen) || !isDue(seen, isPoll)) return;
    const reading = await load(path, catalog);
    const isTorn = (await signatureOf(path)) !== seen;
    if (isClosed) return;
    isUnreadable = !reading.ok && reading.unreadable === "refused";
    if (isTorn) soon.ensure();
    else apply(reading);
  }

  // Checks run one at a time, in order.
  let looking = Promise.resolve();
  const lookNext = (isPoll: boolean) => {
    looking = looking.then(() => (isClosed ? undefined : look(isPoll)));
    return looking;
  };

  const soon = alarm(clock, stableMs, () => {
    // Watching begins again before the check, so that no change falls between them.
    void folderWatch.mend().then(() => lookNext(false));
  });
  const folderWatch = watchFolder(folder, options.watch ?? watch, log, soon.ensure);
  const poll = alarm(clock, pollMs, async () => {
    await Promise.all([folderWatch.mend(), lookNext(true)]);
    if (!isClosed) poll.ensure();
  });

  poll.ensure();
  void folderWatch.mend();
  // Detect a change between the read at boot and now.
  void lookNext(false);

  return {
    current: () => catalog,
    status: () => ({ hash: catalog.hash, loadedAt, ...(faults && { faults }) }),
    async close() {
      isClosed = true;
      soon.cancel();
      poll.cancel();
      await Promise.all([folderWatch.close(), looking]);
    },
  };
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
function alarm(clock: Clock, delayMs: number, ring: () => void) {
  let timer: Timer | undefined;
  return {
    ensure(): void {
      timer ??= clock.after(delayMs, () => {
        timer = undefined;
        ring();
      });
    },
    cancel(): void {
      timer?.cancel();
    },
  };
}

/**
 * Watch the folder at a path for one event. `mend` starts the watch again after an event, and if the folder was
 * replaced or the watch failed.
 */
function watchFolder(folder: string, begin: typeof watch, log: WatchLog, onEvent: () => void) {
  let watcher: FSWatcher | undefined;
  let watched: string | undefined;
  let failure: string | undefined;
  let isClosed = false;

  const drop = () => {
    watcher?.close();
    watcher = undefined;
  };
  const fail = (error: Error) => {
    drop();
    watched = undefined;
    if (error.message === failure) return;
    failure = error.message;
    log.warn({ err: error, folder }, "the catalogue's folder cannot be watched; the file is polled");
  };

  async function mend(): Promise<void> {
    const identity = await stat(folder).then(
      ({ dev, ino }) => `${dev}:${ino}`,
      () => undefined,
    );
    if (isClosed || (watcher && identity === watched)) return;
    drop();
    const isReplaced = identity !== watched;
    watched = identity;
    if (identity === undefined) return;
    try {
      watcher = begin(folder, { persistent: false }, () => {
        drop();
        onEvent();
      }).on("error", fail);
      failure = undefined;
      // Detect changes from before the watch.
      if (isReplaced) onEvent();
    } catch (error) {
      fail(error as Error);
    }
  }

  let mending = Promise.resolve();
  return {
    mend: () => {
      mending = mending.then(mend);
      return mending;
    },
    close: async () => {
      isClosed = true;
      drop();
      await mending;
    },
  };
}
