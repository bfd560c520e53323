import { randomFillSync } from "node:crypto";
import { idText } from "../shared/id-text.ts";

const ID_BYTES = 16;
/** Random bytes are drawn in bulk, because each call to the generator is expensive. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** A new id: 128 random bits in 22 characters of base64url. */
export function newId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += ID_BYTES;
  return idText(pool.toString("base64url", used - ID_BYTES, used));
}
