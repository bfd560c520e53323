import type { Bus } from "../bus/bus.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import { AgentDefinition, withDefinitions } from "../config/catalog/definition.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { every } from "../shared/waiting.ts";
import type { DefinitionRow, DefinitionStore, StoreEpoch } from "../store/store.ts";

/** How often the definitions' version is read from the store, in ms, because a message on the bus may be lost. */
const POLL_MS = 5_000;

export interface DefinedCatalogOptions {
  store: StoreEpoch & DefinitionStore;
  bus: Bus;
  clock: Clock;
  log: Logger;
  /** The catalogue of the file, as it is now. */
  file: () => Catalog;
  /** Called after each change of the definitions. */
  onChange?: () => void;
}

export interface StoredDefinition {
  id: AgentId;
  version: number;
  definition: AgentDefinition;
}

const topicOf = (epoch: string): string => `${epoch}.definitions`;

/** Tell all nodes that a definition changed. */
export async function announceDefinitions(bus: Bus, epoch: string): Promise<void> {
  await bus.publish(topicOf(epoch), new Uint8Array());
}

/**
 * The catalogue that a node uses: the agents of the file, and those that operators defined in the database. Other nodes
 * learn of a change from a message on the bus, or at their next poll.
 */
export class DefinedCatalog {
  readonly #options: DefinedCatalogOptions;
  #stored: readonly StoredDefinition[] = [];
  #version = -1;
  #current: { file: Catalog; catalog: Catalog } | undefined;
  #reading: Promise<void> = Promise.resolve();
  #stop: () => void = () => {};
  #isStopped = false;

  constructor(options: DefinedCatalogOptions) {
    this.#options = options;
  }

  /** @throws AppError `unavailable` if the store cannot be read */
  async start(): Promise<void> {
    const { bus, store, clock, log } = this.#options;
    await this.#read();
    const look = () => {
      this.refresh().catch((error) => log.warn({ err: error }, "the definitions of agents could not be read"));
    };
    const subscription = await bus.subscribe(topicOf(store.epoch), look);
    const offRecovered = bus.onRecovered(look);
    const polling = every(clock, POLL_MS, look);
    this.#stop = () => {
      subscription.end();
      offRecovered();
      polling.cancel();
    };
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stop();
    await this.#reading.catch(() => {});
  }

  readonly current = (): Catalog => {
    const file = this.#options.file();
    if (this.#current?.file !== file) {
      const definitions = this.#stored.map(({ definition }) => definition);
      const hash = `${file.hash}.${this.#version}`;
      const catalog = definitions.length === 0 ? file : { ...withDefinitions(file, definitions), hash };
      this.#current = { file, catalog };
    }
    return this.#current.catalog;
  };

  /** All definitions by id, including those with a fault. */
  definitions(): readonly StoredDefinition[] {
    return this.#stored;
  }

  /** Read the definitions if they changed. */
  refresh(): Promise<void> {
    this.#reading = this.#reading.catch(() => {}).then(() => (this.#isStopped ? undefined : this.#read()));
    return this.#reading;
  }

  async #read(): Promise<void> {
    const { store } = this.#options;
    const version = await store.definitionsVersion();
    if (version === this.#version) return;
    const before = new Map(this.#stored.map((stored) => [stored.id, stored]));
    const all: StoredDefinition[] = [];
    let after: AgentId | undefined;
    for (;;) {
      const page = await store.listDefinitions(after);
      if (page.length === 0) break;
      for (const row of page) {
        const known = before.get(row.id);
        const stored = known?.version === row.version ? known : this.#parse(row);
        if (stored) all.push(stored);
      }
      after = page.at(-1)!.id;
    }
    this.#stored = all;
    this.#version = version;
    this.#current = undefined;
    this.#options.onChange?.();
  }

  #parse({ id, version, body }: DefinitionRow): StoredDefinition | undefined {
    const parsed = AgentDefinition.safeParse(JSON.parse(body));
    if (parsed.success) return { id, version, definition: parsed.data };
    this.#options.log.error({ agentId: id, issues: parsed.error.issues }, "a definition of an agent cannot be read");
    return undefined;
  }
}
