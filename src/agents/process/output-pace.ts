import { TurnBudget } from "../../shared/turn-budget.ts";

/** Bytes of all agents' output that are read in one turn of the event loop: some 25 tokens of a model, or 10 ms. */
const TURN_BYTES = 4_096;

const budget = new TurnBudget(TURN_BYTES);

/**
 * A chunk of what an agent's program or provider writes, in pieces, each in a turn of the event loop that has room for
 * it. Agents take turns: an agent that writes as fast as it can would otherwise keep the process from all other work.
 */
export async function* inTurns<Chunk extends Uint8Array>(chunk: Chunk): AsyncGenerator<Chunk, void, undefined> {
  for (let first = 0; first < chunk.length; first += TURN_BYTES) {
    const piece = chunk.subarray(first, first + TURN_BYTES) as Chunk;
    await budget.read(() => budget.spend(piece.length));
    yield piece;
  }
}
