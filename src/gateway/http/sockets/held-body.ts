import type { IncomingMessage } from "node:http";

/**
 * The chunked body of a request that waits for its turn, as far as it has been read. A request keeps each chunk by itself:
 * megabytes for 64 KiB in chunks of one byte.
 */
export class HeldBody {
  readonly #request: IncomingMessage;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #isWhole = false;

  constructor(request: IncomingMessage) {
    this.#request = request;
    // The socket's parser adds each chunk with this method, and null at the end.
    request.push = (piece: Buffer | null) => {
      if (piece === null) this.#isWhole = true;
      else this.#add(piece);
      return false;
    };
  }

  /** The request's turn has come: give it what has been read, and all that follows. */
  release(): void {
    const request: Partial<Pick<IncomingMessage, "push">> & IncomingMessage = this.#request;
    Reflect.deleteProperty(request, "push");
    if (this.#length > 0) request.push(this.#bytes.subarray(0, this.#length));
    if (this.#isWhole) request.push(null);
  }

  #add(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (length > this.#bytes.length) {
      const grown = Buffer.alloc(Math.max(length, this.#bytes.length * 2));
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#bytes = grown;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = length;
  }
}
