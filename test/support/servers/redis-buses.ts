import { randomUUID } from "node:crypto";
import type { Bus } from "../../../src/bus/bus.ts";
import { openRedisBus } from "../../../src/bus/redis-bus.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { KeptLog } from "../stores/sqlite-place.ts";

/** Buses of the nodes of one store, over the same servers. */
export class RedisBuses {
  readonly log = new KeptLog();
  readonly epoch: string;
  readonly #urls: readonly string[];
  readonly #opened: Bus[] = [];

  /** @param epoch default: one that no other test uses */
  constructor(urls: readonly string[], epoch: string = randomUUID()) {
    this.#urls = urls;
    this.epoch = epoch;
  }

  /** The bus of another node. */
  async connect(urls = this.#urls): Promise<Bus> {
    const { epoch, log } = this;
    const bus = await openRedisBus({ urls, epoch, clock: new SystemClock(), newId: randomUUID, log });
    this.#opened.push(bus);
    return bus;
  }

  async close(): Promise<void> {
    for (const bus of this.#opened) await bus.close();
  }
}
