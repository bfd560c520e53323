import type { Catalog } from "../config/catalog/catalog.ts";
import { describeRefusal, loadCatalog, type RefusedCatalog } from "../config/catalog/catalog-file.ts";
import { type CatalogStatus, WatchedCatalog } from "../config/catalog/watched-catalog.ts";
import type { Definitions } from "../gateway/route-context.ts";
import { differenceLines, differenceOf, whyNoMatrix } from "../policy/matrix.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { announceDefinitions, DefinedCatalog } from "./defined-catalog.ts";
import type { Deployment } from "./deployment.ts";

/**
 * The maximum number of lines of cells, and of agents, that the log has of a new catalogue. `POST /catalogue/diff` has
 * them all.
 */
const MAX_LOGGED = 50;

/** The catalogue that a node uses, always as it is now. */
export interface NodeCatalog {
  /** The agents of the file, and those that operators defined in the database. */
  current: () => Catalog;
  /** Add what is called after each reload of the file, and after each change of the definitions. */
  onReload: (listener: () => void) => void;
  /** Which file is in use, and the faults of a newer one that was refused. */
  status: () => CatalogStatus;
  definitions: Definitions;
}

/**
 * Read the catalogue's file.
 * @throws CatalogError if it has faults
 */
export async function readNodeCatalog(path: string): Promise<Catalog> {
  const reading = await loadCatalog(path);
  if (!reading.ok) throw new CatalogError(path, reading);
  return reading.catalog;
}

/**
 * Follow the catalogue's file and the definitions in the store, beginning with `initial`.
 * @throws AppError `unavailable` if the store cannot be read
 */
export async function openCatalog(
  path: string,
  initial: Catalog,
  { store, bus, clock }: Deployment,
  log: Logger,
): Promise<NodeCatalog & AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  const listeners: (() => void)[] = [];
  const onChange = () => {
    for (const listener of listeners) listener();
  };
  const watched = new WatchedCatalog({ path, initial, clock, log, describeChange, onChange });
  opened.defer(() => watched.close());
  const defined = new DefinedCatalog({ store, bus, clock, log, file: watched.current, onChange });
  opened.defer(() => defined.stop());
  await defined.start();
  const stack = opened.move();
  return {
    current: defined.current,
    onReload(listener) {
      listeners.push(listener);
    },
    status: () => watched.status(),
    definitions: {
      all: () => defined.definitions(),
      file: watched.current,
      refresh: () => defined.refresh(),
      announce: () => announceDefinitions(bus, store.epoch),
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** What changes in the matrix of who does what to whom. */
function describeChange(before: Catalog, after: Catalog): string[] {
  const reason = whyNoMatrix(before) ?? whyNoMatrix(after);
  return reason === undefined ? differenceLines(differenceOf(before, after), MAX_LOGGED) : [reason];
}

/** The catalogue cannot be used. The message lists every fault with its line and column. */
export class CatalogError extends Error {
  constructor(path: string, refused: RefusedCatalog) {
    super(["the catalogue cannot be used", ...describeRefusal(path, refused)].join("\n"));
    this.name = "CatalogError";
  }
}
