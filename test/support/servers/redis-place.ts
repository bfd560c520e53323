import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { onTestFinished } from "vitest";
import type { Bus } from "../../../src/bus/bus.ts";
import { openRedisBus } from "../../../src/bus/redis-bus.ts";
import { openBullmqQueue } from "../../../src/queue/bullmq-queue.ts";
import type { RunQueue } from "../../../src/queue/run-queue.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { KeptLog } from "../stores/sqlite-place.ts";

/** What the nodes of one store open over the same Redis servers. */
export class RedisPlace {
  readonly clock = new SystemClock();
  readonly log = new KeptLog();
  /** An epoch that no other test uses. */
  readonly epoch = randomUUID();
  readonly #urls: readonly [string, ...string[]];
  readonly #opened: { close(): Promise<void> }[] = [];

  constructor(...urls: [string, ...string[]]) {
    this.#urls = urls;
  }

  /** The bus of another node. */
  async connect(urls: readonly string[] = this.#urls): Promise<Bus> {
    const { clock, epoch, log } = this;
    const bus = await openRedisBus({ urls, epoch, clock, newId: randomUUID, log });
    this.#opened.push(bus);
    return bus;
  }

  /** The run queue of another node. */
  async open(clock: Clock = this.clock): Promise<RunQueue> {
    const { epoch, log } = this;
    const queue = await openBullmqQueue({ urls: this.#urls, epoch, clock, log });
    this.#opened.push(queue);
    return queue;
  }

  async close(): Promise<void> {
    for (const each of this.#opened) await each.close();
  }
}

/** One that is closed when the test ends. */
export function placeOf(...urls: [string, ...string[]]): RedisPlace {
  const place = new RedisPlace(...urls);
  onTestFinished(() => place.close());
  return place;
}

/** The test's own connection, to observe and to interfere. */
export function connectTo(url: string): Redis {
  const admin = new Redis(url);
  onTestFinished(() => admin.disconnect());
  return admin;
}
