import { randomBytes } from "node:crypto";

const EPOCH_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz";
const EPOCH_LENGTH = 6;
const SECRET_BYTES = 32;

/** A store's identity, created with the store. */
export interface Meta {
  epoch: string;
  secret: string;
}

/** A random identity for a new store. */
export function newMeta(): Meta {
  const digits = Array.from(randomBytes(EPOCH_LENGTH), (byte) => EPOCH_DIGITS[byte % EPOCH_DIGITS.length]);
  return { epoch: digits.join(""), secret: randomBytes(SECRET_BYTES).toString("hex") };
}
