import { randomUUID } from "node:crypto";
import { openBullmqQueue } from "../../../src/queue/bullmq-queue.ts";
import type { RunQueue } from "../../../src/queue/run-queue.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { KeptLog } from "../stores/sqlite-place.ts";

/** The run queue as the nodes of one store use it, over one Redis. */
export class BullmqQueues {
  readonly clock = new SystemClock();
  readonly log = new KeptLog();
  /** An epoch that no other test uses. */
  readonly epoch = randomUUID();
  readonly #url: string;
  readonly #opened: RunQueue[] = [];

  constructor(url: string) {
    this.#url = url;
  }

  /** The queue of another node. */
  async open(clock: Clock = this.clock): Promise<RunQueue> {
    const queue = await openBullmqQueue({ urls: [this.#url], epoch: this.epoch, clock, log: this.log });
    this.#opened.push(queue);
    return queue;
  }

  async close(): Promise<void> {
    for (const queue of this.#opened) await queue.close();
  }
}
