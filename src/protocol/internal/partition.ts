import type { FloorId } from "../ids.ts";
import { fnv1a } from "./hash.ts";

/** The fixed number of partitions. Stored effects carry the partition of their floor. */
export const PARTITIONS = 256;

/**
 * The partition of a floor, 0 to 255: FNV-1a over its UTF-16 units, then mixed, because FNV's low bits hardly differ
 * between similar ids. Rows store it, so the function must never change.
 */
export function partitionOf(floorId: FloorId): number {
  let hash = fnv1a(floorId);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) & (PARTITIONS - 1);
}
