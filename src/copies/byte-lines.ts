import { createHash, type Hash } from "node:crypto";
import type { Readable } from "node:stream";
import type { Loan } from "../gateway/http/byte-budget.ts";
import { AppError } from "../protocol/errors.ts";

export interface ByteLinesOptions {
  maxLineBytes: number;
  maxBytes: number;
  /** The memory of the incoming line. */
  loan: Loan;
}

const NEWLINE = 10;
/** After this many lines the reader yields to other work. */
const LINES_AT_ONCE = 64;

/** The lines of a body, read on demand: the sender waits while the previous line is processed. Skips empty lines. */
export class ByteLines {
  readonly #source: Readable;
  readonly #options: ByteLinesOptions;
  readonly #hash: Hash = createHash("sha256");
  #bytes = 0;
  #lines = 0;

  constructor(source: Readable, options: ByteLinesOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** The hash of the body, after all of it was read. */
  digest(): string {
    return this.#hash.digest("base64url");
  }

  /**
   * @throws AppError `too_large`; `busy` if the node has no room for the line; `bad_request` if the sender disconnects
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { maxLineBytes } = this.#options;
    let started: Buffer[] = [];
    let length = 0;
    try {
      // If the body is refused, the rest of it is dropped by what answers the request.
      const pieces: AsyncIterable<Buffer> = this.#source.iterator({ destroyOnReturn: false });
      for await (const piece of pieces) {
        this.#count(piece);
        let from = 0;
        for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, from)) {
          const line = Buffer.concat([...started, piece.subarray(from, end)]);
          started = [];
          length = 0;
          from = end + 1;
          if (line.length > maxLineBytes) throw tooLong(maxLineBytes);
          if (line.length > 0) yield line;
          await this.#letOthersWork();
        }
        const rest = piece.subarray(from);
        length += rest.length;
        this.#borrow(length);
        if (rest.length > 0) started.push(rest);
      }
    } catch (error) {
      throw error instanceof AppError
        ? error
        : new AppError("bad_request", "The connection closed before the whole body had arrived. Send it again.", {
            cause: error,
          });
    }
    if (length > 0) yield Buffer.concat(started);
  }

  async #letOthersWork(): Promise<void> {
    this.#lines += 1;
    if (this.#lines % LINES_AT_ONCE === 0) await new Promise(setImmediate);
  }

  #count(piece: Buffer): void {
    this.#hash.update(piece);
    this.#bytes += piece.length;
    if (this.#bytes > this.#options.maxBytes) throw new AppError("too_large");
  }

  /** Take room in the node's memory for the line under way. */
  #borrow(bytes: number): void {
    const { maxLineBytes, loan } = this.#options;
    if (bytes > maxLineBytes) throw tooLong(maxLineBytes);
    if (!loan.growTo(bytes)) {
      throw new AppError("busy", "Too many large requests are arriving; repeat with the same key.");
    }
  }
}

const tooLong = (maxBytes: number) => new AppError("too_large", `A line is longer than ${maxBytes} bytes.`);
