import type { FloorId } from "./ids.ts";

/** Into how many fixed shares the floors are divided. */
export const PARTITIONS = 256;

/**
 * The share a floor belongs to, 0 to 255: FNV-1a over its UTF-16 units, then mixed, because FNV's low bits alone hardly
 * differ between similar ids. It is written into rows, so it must never change.
 */
export function partitionOf(floorId: FloorId): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < floorId.length; index++) {
    hash = Math.imul(hash ^ floorId.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) & (PARTITIONS - 1);
}
