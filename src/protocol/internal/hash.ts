import type { FloorId } from "../ids.ts";

/**
 * 32-bit FNV-1a (Fowler, Noll, Vo) over a text's UTF-16 units. Signed. Similar texts share low bits: mix the result.
 */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash;
}

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
