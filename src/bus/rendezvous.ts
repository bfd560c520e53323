/**
 * Who looks after which share: for each share the node whose hash with it is highest (Thaler and Ravishankar, "A
 * Name-Based Mapping Scheme for Rendezvous", 1996). All nodes that see the same members come to the same answer, and
 * when one goes only its own shares move.
 *
 * @returns by share, 0 to `count - 1`, the node's id; empty without nodes
 */
export function ownersOf(nodeIds: readonly string[], count: number): string[] {
  // Equal hashes go to the same node whatever the order of the list.
  const sorted = [...new Set(nodeIds)].sort();
  if (sorted.length === 0) return [];
  return Array.from({ length: count }, (_, share) => {
    let best = sorted[0]!;
    let highest = -1;
    for (const nodeId of sorted) {
      const hash = weigh(`${share}:${nodeId}`);
      if (hash > highest) {
        highest = hash;
        best = nodeId;
      }
    }
    return best;
  });
}

/** 32 bits of FNV-1a, finished as murmur3 does, so that similar names weigh very differently. */
export function weigh(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
