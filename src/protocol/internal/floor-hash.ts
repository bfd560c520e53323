import type { FloorId } from "../ids.ts";
import { fnv1a } from "./hash.ts";

/** The number of different hashes of floors. */
export const FLOOR_HASHES = 256;

/**
 * The hash of a floor, 0 to 255, from which its partition follows: FNV-1a over its UTF-16 units, then mixed, because
 * FNV's low bits hardly differ between similar ids. Rows of floors and run requests store it (`floor_hash`), so the
 * function must never change.
 */
export function floorHash(floorId: FloorId): number {
  let hash = fnv1a(floorId);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) & (FLOOR_HASHES - 1);
}
