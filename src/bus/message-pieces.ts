// Rule C22 of docs/inside/correctness.md.
import { AppError } from "../protocol/errors.ts";
import { MAX_BUS_MESSAGE } from "./bus.ts";

/** The maximum size of the line before a piece: the mark, an id and two numbers. */
const LABEL_BYTES = 256;
const PIECE_BYTES = MAX_BUS_MESSAGE - LABEL_BYTES;
/** Four MiB: more than the longest message a client may send, however its characters are escaped. */
const MAX_PIECES = 64;
/** Bytes of messages that still miss pieces. Beyond it the oldest are discarded; their senders repeat them. */
const MAX_INCOMPLETE_BYTES = 16_777_216;
/** Messages that still miss pieces. Pieces of a few bytes would exceed the memory long before the bytes above. */
const MAX_INCOMPLETE = 1_024;
/** `#`, which no JSON text begins with. */
const MARK = 0x23;
const NEWLINE = 0x0a;
const LABEL = /^#(\S{1,128}) (\d{1,2})\/(\d{1,2})$/;

/**
 * Split a message into pieces that fit the bus (rule C22). A message within the limit is returned as the only piece.
 *
 * @throws AppError `too_large` when it needs more than 64 pieces
 */
export function toPieces(message: Uint8Array, newId: () => string): Uint8Array[] {
  if (message.byteLength <= MAX_BUS_MESSAGE) return [message];
  const count = Math.ceil(message.byteLength / PIECE_BYTES);
  if (count > MAX_PIECES) throw new AppError("too_large");
  const id = newId();
  return Array.from({ length: count }, (_, index) => {
    const label = Buffer.from(`#${id} ${index}/${count}\n`);
    return Buffer.concat([label, message.subarray(index * PIECE_BYTES, (index + 1) * PIECE_BYTES)]);
  });
}

interface Incomplete {
  count: number;
  pieces: Map<number, Uint8Array>;
  bytes: number;
}

/** Reassembles messages from their pieces, which may arrive in any order, twice, or never. */
export class Reassembler {
  readonly #incomplete = new Map<string, Incomplete>();
  #bytes = 0;

  /** @returns the message that this piece completes, or undefined */
  add(piece: Uint8Array): Uint8Array | undefined {
    if (piece[0] !== MARK) return piece;
    const end = piece.indexOf(NEWLINE);
    const [, id, at, of] = LABEL.exec(Buffer.from(piece.subarray(0, Math.max(end, 0))).toString("latin1")) ?? [];
    const index = Number(at);
    const count = Number(of);
    if (id === undefined || index >= count || count > MAX_PIECES) return undefined;
    const message = this.#incomplete.get(id) ?? { count, pieces: new Map(), bytes: 0 };
    if (message.count !== count || message.pieces.has(index)) return undefined;
    // A copy: the received piece is part of a larger buffer, which a few bytes would keep in memory.
    message.pieces.set(index, new Uint8Array(piece.subarray(end + 1)));
    this.#forget(id, message);
    if (message.pieces.size === count) {
      return Buffer.concat(Array.from({ length: count }, (_, each) => message.pieces.get(each)!));
    }
    message.bytes += piece.byteLength;
    this.#incomplete.set(id, message);
    this.#bytes += message.bytes;
    for (const [oldest, other] of this.#incomplete) {
      if (this.#bytes <= MAX_INCOMPLETE_BYTES && this.#incomplete.size <= MAX_INCOMPLETE) break;
      this.#forget(oldest, other);
    }
    return undefined;
  }

  #forget(id: string, message: Incomplete): void {
    if (this.#incomplete.delete(id)) this.#bytes -= message.bytes;
  }
}
