import type { Clock } from "../../shared/ports/clock.ts";
import type { Fault } from "../fault.ts";
import { WatchedFile, type WatchedFileOptions } from "../watched-file.ts";
import type { Catalog } from "./catalog.ts";
import { compareCatalogs } from "./catalog-change.ts";
import { type CatalogReading, loadCatalog } from "./catalog-file.ts";

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
  /** As those of `WatchedFile`. */
  stableMs?: number;
  pollMs?: number;
  /** Reads the file; `known`: the catalogue in use. Default: `loadCatalog`. */
  load?: (path: string, known: Catalog) => Promise<CatalogReading>;
  watch?: WatchedFileOptions<CatalogReading>["watch"];
}

/**
 * The catalogue of a file. A valid file replaces the whole catalogue: call `current()` for each decision. An invalid or
 * missing file changes nothing; it is logged and reported by `status()`.
 */
export class WatchedCatalog {
  readonly #options: WatchOptions;
  readonly #file: WatchedFile<CatalogReading>;
  #catalog: Catalog;
  #loadedAt: number;
  #faults: readonly Fault[] | undefined;

  constructor(options: WatchOptions) {
    const { path, initial, clock, log, load = loadCatalog, stableMs, pollMs, watch } = options;
    this.#options = options;
    this.#catalog = initial;
    this.#loadedAt = clock.now();
    this.#file = new WatchedFile({
      path,
      clock,
      load: () => load(path, this.#catalog),
      apply: (reading) => this.#apply(reading),
      isUnreadable: (reading) => !reading.ok && reading.unreadable === "refused",
      onUnwatchable: (error, folder) =>
        log.warn({ err: error, folder }, "the catalogue's folder cannot be watched; the file is polled"),
      stableMs,
      pollMs,
      watch,
    });
  }

  readonly current = (): Catalog => this.#catalog;

  /** For `/ready`. */
  status(): CatalogStatus {
    return {
      hash: this.#catalog.hash,
      loadedAt: this.#loadedAt,
      ...(this.#faults && { faults: this.#faults }),
    };
  }

  /** Stop watching. After it resolves, nothing is logged or changed. */
  close(): Promise<void> {
    return this.#file.close();
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
