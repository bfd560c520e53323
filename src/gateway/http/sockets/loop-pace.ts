import type { Readable } from "node:stream";

/** Bytes after which a body waits for the next iteration. */
const BODY_BYTES = 65_536;
/** Bodies, and requests, that continue in one iteration of the event loop. */
const LOOP_BODIES = 16;
const LOOP_REQUESTS = 16;
/** Bodies and requests that wait at most. Each keeps a piece of up to 64 KiB; further ones do not wait. */
const MAX_WAITING_REQUESTS = 256;
/** Iterations in a row in which waiting work lets new connections go first. */
const YIELDED_LOOPS = 256;

/**
 * Spreads the work of many clients over iterations of the event loop. The loop accepts one connection per iteration. If
 * it served a hundred clients in each iteration, a new client would wait for seconds. Requests therefore wait while
 * connections are being accepted, and large bodies wait for each other too.
 */
export class LoopPace {
  #bodies: Readable[] = [];
  #requests: (() => void)[] = [];
  /** A connection was accepted in this iteration. */
  #hasAccepted = false;
  /** A connection was accepted in the previous iteration, and further ones may wait. */
  #isAccepting = false;
  #isScheduled = false;
  #yielded = 0;

  noteConnection(): void {
    this.#hasAccepted = true;
    this.#schedule();
  }

  /** @param begin called now, or in a later iteration while connections are being accepted */
  request(begin: () => void): void {
    const waits = this.#hasAccepted || this.#isAccepting || this.#requests.length > 0;
    if (!waits || this.#requests.length >= MAX_WAITING_REQUESTS) return begin();
    this.nextRequest(begin);
  }

  /** @param begin a request that came together with the one just answered; called in a later iteration */
  nextRequest(begin: () => void): void {
    this.#requests.push(begin);
    this.#schedule();
  }

  /** @returns what to call with each piece of a body that was read */
  body(body: Readable): (piece: Buffer) => void {
    let bytes = 0;
    return (piece) => {
      bytes += piece.length;
      if (bytes < BODY_BYTES || this.#bodies.length >= MAX_WAITING_REQUESTS) return;
      bytes = 0;
      body.pause();
      this.#bodies.push(body);
      this.#schedule();
    };
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#iterate());
  }

  #iterate(): void {
    this.#isScheduled = false;
    this.#isAccepting = this.#hasAccepted && this.#yielded < YIELDED_LOOPS;
    this.#hasAccepted = false;
    this.#yielded = this.#isAccepting ? this.#yielded + 1 : 0;
    if (!this.#isAccepting) this.#continue();
    if (this.#isAccepting || this.#bodies.length > 0 || this.#requests.length > 0) this.#schedule();
  }

  /** What continues may wait again at once, behind the others. */
  #continue(): void {
    for (const body of this.#bodies.splice(0, LOOP_BODIES)) body.resume();
    // A callback of the loop for each: the promises of one request are settled before the next request begins, as they
    // are when each is read from a socket of its own. The counters of rate limits depend on that.
    const [first, ...others] = this.#requests.splice(0, LOOP_REQUESTS);
    for (const begin of others) setImmediate(begin);
    first?.();
  }
}
