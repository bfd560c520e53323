import type { Readable } from "node:stream";

/** Bytes after which a body waits for its next turn. */
const BODY_BYTES = 65_536;
/** Bodies, and requests, that continue in one turn of the event loop. */
const TURN_BODIES = 16;
const TURN_REQUESTS = 16;
/** Bodies and requests that wait at most. Each keeps a piece of up to 64 KiB; further ones do not wait. */
const MAX_WAITING_REQUESTS = 256;
/** Turns in a row in which waiting work lets new connections go first. */
const YIELDED_TURNS = 256;

/**
 * Spreads the work of many clients over turns of the event loop. The loop accepts one connection per turn. If it served a
 * hundred clients in each turn, a new client would wait for seconds. Requests therefore wait while connections are being
 * accepted, and large bodies take turns too.
 */
export class TurnPace {
  #bodies: Readable[] = [];
  #requests: (() => void)[] = [];
  /** A connection was accepted in this turn. */
  #hasAccepted = false;
  /** A connection was accepted in the previous turn, and further ones may wait. */
  #isAccepting = false;
  #isScheduled = false;
  #yielded = 0;

  noteConnection(): void {
    this.#hasAccepted = true;
    this.#schedule();
  }

  /** @param begin called now, or in a later turn while connections are being accepted */
  request(begin: () => void): void {
    const waits = this.#hasAccepted || this.#isAccepting || this.#requests.length > 0;
    if (!waits || this.#requests.length >= MAX_WAITING_REQUESTS) return begin();
    this.nextRequest(begin);
  }

  /** @param begin a request that came together with the one just answered; called in a later turn */
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
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#isScheduled = false;
    this.#isAccepting = this.#hasAccepted && this.#yielded < YIELDED_TURNS;
    this.#hasAccepted = false;
    this.#yielded = this.#isAccepting ? this.#yielded + 1 : 0;
    if (!this.#isAccepting) this.#continue();
    if (this.#isAccepting || this.#bodies.length > 0 || this.#requests.length > 0) this.#schedule();
  }

  /** What continues may wait again at once, behind the others. */
  #continue(): void {
    for (const body of this.#bodies.splice(0, TURN_BODIES)) body.resume();
    // A callback of the loop for each: the promises of one request are settled before the next request begins, as they
    // are when each is read from a socket of its own. The counters of rate limits depend on that.
    const [first, ...others] = this.#requests.splice(0, TURN_REQUESTS);
    for (const begin of others) setImmediate(begin);
    first?.();
  }
}
