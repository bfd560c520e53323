import type { Readable } from "node:stream";

/** Bytes after which a body waits, and bodies that continue per turn of the event loop. */
const TURN_BYTES = 65_536;
const TURN_BODIES = 16;
/**
 * The maximum number of waiting bodies. Each holds one further piece of up to 64 KiB. Beyond this number, bodies do not
 * wait.
 */
const MAX_WAITING = 256;
/** Consecutive turns in which new connections take precedence over waiting bodies. */
const YIELDED_TURNS = 64;

/**
 * Spreads the reading of large bodies over turns of the event loop. The loop accepts one connection in a turn, so while
 * it reads from each of a hundred clients in every turn, a new client waits for seconds. Large bodies therefore take
 * turns, and wait while connections are being accepted.
 */
export class BodyPace {
  #waiting: Readable[] = [];
  #hasAccepted = false;
  #yielded = 0;

  noteConnection(): void {
    this.#hasAccepted = true;
  }

  /** @returns a function to call with each piece of a body */
  of(body: Readable): (piece: Buffer) => void {
    let bytes = 0;
    return (piece) => {
      bytes += piece.length;
      if (bytes < TURN_BYTES || this.#waiting.length >= MAX_WAITING) return;
      bytes = 0;
      body.pause();
      if (this.#waiting.push(body) === 1) setImmediate(() => this.#resume());
    };
  }

  #resume(): void {
    const yields = this.#hasAccepted && this.#yielded < YIELDED_TURNS;
    this.#hasAccepted = false;
    this.#yielded = yields ? this.#yielded + 1 : 0;
    const resumed = yields ? [] : this.#waiting.splice(0, TURN_BODIES);
    if (this.#waiting.length > 0) setImmediate(() => this.#resume());
    // These bodies may wait again at once, behind the others.
    for (const body of resumed) body.resume();
  }
}
