import { randomFillSync } from "node:crypto";

const ID_BYTES = 16;
/** Random bytes are cheap by the page and dear by the piece. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** 128 random bits in 22 characters. */
export function newId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += ID_BYTES;
  return pool.toString("base64url", used - ID_BYTES, used);
}
