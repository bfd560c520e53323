import { LoopBudget } from "../../shared/loop-budget.ts";

/**
 * Bytes of all agents' output that are read in one iteration of the event loop: some 25 tokens of a model, or 10 ms.
 */
const LOOP_BYTES = 4_096;

const budget = new LoopBudget(LOOP_BYTES);

/**
 * A chunk of what an agent's program or provider writes, in pieces, each in an iteration of the event loop that has
 * room for it. Agents share the budget: an agent that writes as fast as it can would otherwise keep the process from
 * all other work.
 */
export async function* pacedPieces<Chunk extends Uint8Array>(chunk: Chunk): AsyncGenerator<Chunk, void, undefined> {
  for (let first = 0; first < chunk.length; first += LOOP_BYTES) {
    const piece = chunk.subarray(first, first + LOOP_BYTES) as Chunk;
    await budget.read(() => budget.spend(piece.length));
    yield piece;
  }
}
