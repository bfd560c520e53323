import { fnv1a } from "../protocol/internal/hash.ts";

/**
 * Assign each partition to the node whose hash with it is highest (Thaler and Ravishankar, "A Name-Based Mapping Scheme
 * for Rendezvous", 1996). All nodes that see the same members compute the same assignment, and when a node leaves, only
 * its own partitions move.
 *
 * @returns the node id per partition, indexed 0 to `count - 1`; empty when there are no nodes
 */
export function ownersOf(nodeIds: readonly string[], count: number): string[] {
  // Sorting breaks ties between equal hashes the same way on every node.
  const sorted = [...new Set(nodeIds)].sort();
  if (sorted.length === 0) return [];
  return Array.from({ length: count }, (_, partition) => {
    let best = sorted[0]!;
    let highest = -1;
    for (const nodeId of sorted) {
      const hash = weigh(`${partition}:${nodeId}`);
      if (hash > highest) {
        highest = hash;
        best = nodeId;
      }
    }
    return best;
  });
}

/** FNV-1a with murmur3's finalizer, so that similar names get very different weights. Unsigned, 32 bits. */
export function weigh(text: string): number {
  let hash = fnv1a(text);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
