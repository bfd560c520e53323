import { AppError } from "../protocol/errors.ts";
import { MAX_BUS_MESSAGE } from "./bus.ts";

/** What the line before a piece may take: its mark, an id, two numbers. */
const LABEL_BYTES = 256;
const PIECE_BYTES = MAX_BUS_MESSAGE - LABEL_BYTES;
/** Four MiB: more than the longest message a client may send, however its characters are escaped. */
const MAX_PIECES = 64;
/** Bytes of parcels of which pieces are missing; the oldest make room. Whoever sent them sends them again. */
const MAX_INCOMPLETE_BYTES = 16_777_216;
/** JSON does not begin with it. */
const MARK = 0x23;
const NEWLINE = 0x0a;
const LABEL = /^#(\S{1,128}) (\d{1,2})\/(\d{1,2})$/;

/**
 * A message in pieces that the bus takes (rule C22); one that is light is its own only piece.
 *
 * @throws AppError `too_large`
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

interface Parcel {
  count: number;
  pieces: Map<number, Uint8Array>;
  bytes: number;
}

/** Puts together what comes in pieces: in any order, some of them twice, some of them never. */
export class ParcelDesk {
  readonly #incomplete = new Map<string, Parcel>();
  #bytes = 0;

  /** @returns the message that is whole with this piece, or undefined */
  take(piece: Uint8Array): Uint8Array | undefined {
    if (piece[0] !== MARK) return piece;
    const end = piece.indexOf(NEWLINE);
    const [, id, at, of] = LABEL.exec(Buffer.from(piece.subarray(0, Math.max(end, 0))).toString("latin1")) ?? [];
    const index = Number(at);
    const count = Number(of);
    if (id === undefined || index >= count || count > MAX_PIECES) return undefined;
    const parcel = this.#incomplete.get(id) ?? { count, pieces: new Map(), bytes: 0 };
    if (parcel.count !== count || parcel.pieces.has(index)) return undefined;
    parcel.pieces.set(index, piece.subarray(end + 1));
    this.#forget(id, parcel);
    if (parcel.pieces.size === count) {
      return Buffer.concat(Array.from({ length: count }, (_, each) => parcel.pieces.get(each)!));
    }
    parcel.bytes += piece.byteLength;
    this.#incomplete.set(id, parcel);
    this.#bytes += parcel.bytes;
    for (const [oldest, other] of this.#incomplete) {
      if (this.#bytes <= MAX_INCOMPLETE_BYTES) break;
      this.#forget(oldest, other);
    }
    return undefined;
  }

  #forget(id: string, parcel: Parcel): void {
    if (this.#incomplete.delete(id)) this.#bytes -= parcel.bytes;
  }
}
