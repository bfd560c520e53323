import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock, Timer } from "../protocol/clock.ts";
import type { Catalog } from "./catalog.ts";
import { compareCatalogs } from "./catalog-change.ts";
import { type CatalogReading, loadCatalog } from "./catalog-file.ts";
import type { Fault } from "./fault.ts";

/** The catalogue as it is now. Ask again for each decision: a reload puts another in its place, whole. */
export interface WatchedCatalog {
  current(): Catalog;
  /** For `/ready`: `faults` are those of the file as it stands, while an older catalogue serves. */
  status(): CatalogStatus;
  /** Afterwards nothing is watched, logged or changed any more. */
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
  /** What was read from the file at boot. */
  initial: Catalog;
  clock: Clock;
  log: WatchLog;
  /** Called with each new catalogue, after `current()` shows it. */
  onChange?: (catalog: Catalog) => void;
  /** How long the folder rests before the file is looked at: a save is several events. Default 50. */
  settleMs?: number;
  /** How often the file is looked at without any event. Default 2000. */
  pollMs?: number;
}

const MISSING = "missing";
/** Polls that must agree on how a file looks: the first may come right after an event, the second is a poll's time later. */
const ENOUGH = 2;

/**
 * Follow a catalogue's file. A valid file replaces the catalogue whole; an invalid one, or none, changes nothing and is
 * logged and told by `status()`.
 *
 * Two means together: the folder is watched, which sees files renamed into place and links switched, where a watch on
 * the file itself would stay with the old one; and the file is polled, which sees links into other folders, network
 * drives, and a folder that was replaced.
 */
export function watchCatalog(options: WatchOptions): WatchedCatalog {
  const { path, clock, log, settleMs = 50, pollMs = 2_000 } = options;
  const folder = dirname(path);

  let catalog = options.initial;
  let loadedAt = clock.now();
  let faults: readonly Fault[] | undefined;
  let isClosed = false;

  /** What the file looked like when it was last looked at, and how many later polls have confirmed that. */
  let signature: string | undefined;
  let confirmations = 0;

  function take(reading: CatalogReading): void {
    if (!reading.ok) {
      if (JSON.stringify(reading.faults) === JSON.stringify(faults)) return;
      faults = reading.faults;
      log.error({ path, hash: catalog.hash, faults }, "the catalogue has faults; the one before stays in use");
      return;
    }
    const hadFaults = faults !== undefined;
    faults = undefined;
    if (reading.catalog.hash === catalog.hash) {
      if (hadFaults) log.info({ path, hash: catalog.hash }, "the catalogue is as it was, without faults");
      return;
    }
    const change = compareCatalogs(catalog, reading.catalog);
    catalog = reading.catalog;
    loadedAt = clock.now();
    log.info({ path, hash: catalog.hash, ...change }, "the catalogue was replaced");
    try {
      options.onChange?.(catalog);
    } catch (error) {
      log.error({ err: error }, "a listener to the catalogue failed");
    }
  }

  async function look(isPoll: boolean): Promise<void> {
    const seen = await signatureOf(path);
    if (isClosed) return;
    if (seen !== signature) {
      signature = seen;
      confirmations = 0;
    } else if (confirmations === ENOUGH) {
      return;
    } else if (isPoll) {
      confirmations++;
    }
    // A file is away for a moment when an editor puts another in its place: it is missing when polls say so.
    if (seen === MISSING && confirmations < ENOUGH) return;
    // What changed just now may change again within one tick of the file system's clock, and look the same: until it is
    // confirmed it is read anew.
    const reading = await loadCatalog(path);
    const isTorn = (await signatureOf(path)) !== seen;
    if (isClosed) return;
    if (isTorn) soon.ensure();
    else take(reading);
  }

  // One look at a time, in order.
  let looking = Promise.resolve();
  const lookNext = (isPoll: boolean) => {
    looking = looking.then(() => (isClosed ? undefined : look(isPoll)));
    return looking;
  };

  const soon = alarm(clock, settleMs, () => void lookNext(false));
  const folderWatch = watchFolder(folder, log, soon.ensure);
  const poll = alarm(clock, pollMs, async () => {
    await Promise.all([folderWatch.mend(), lookNext(true)]);
    if (!isClosed) poll.ensure();
  });

  poll.ensure();
  void folderWatch.mend();
  // What changed between the reading at boot and now.
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

/** Changes whenever the file behind the path does; follows links. */
async function signatureOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(":");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" || code === "ENOTDIR" ? MISSING : `unreadable:${code}`;
  }
}

/** One timer, however often it is asked for. */
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

/** Watch a folder, whichever folder that is now: `mend` begins again after it was replaced, or the watch broke. */
function watchFolder(folder: string, log: WatchLog, onEvent: () => void) {
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
    watched = identity;
    if (identity === undefined) return;
    try {
      watcher = watch(folder, { persistent: false }, onEvent).on("error", fail);
      failure = undefined;
      // What happened while nobody watched.
      onEvent();
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
