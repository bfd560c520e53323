import type { Message } from "./message.ts";

/**
 * Messages of the user that are held at most until their replies come. A session keeps fewer turns waiting; an imported
 * history may have any number of questions without a reply.
 */
const MAX_HELD = 64;

/**
 * Puts messages of a session in the order of its turns. The store lists them as they were written, so the messages of
 * turns that waited come before the replies to earlier ones. Here each message of the user comes right before the first
 * reply of its run; one without a reply keeps its place among the user's messages, whose order does not change.
 */
export class TurnOrder {
  /** Messages of the user whose replies have not come, oldest first. */
  #held: Message[] = [];

  /** Take the next message as the store lists them. @returns those whose place is known now, in order */
  take(message: Message): Message[] {
    const { id, role, runId, summary } = message;
    if (role === "user" && runId !== undefined) {
      const index = this.#held.findIndex((held) => held.id === id);
      // It was read again, because it may have begun meanwhile.
      if (index >= 0) this.#held[index] = message;
      else this.#held.push(message);
      return this.#held.splice(0, this.#held.length - MAX_HELD);
    }
    // A summary belongs to no turn. An imported message without a run keeps its place.
    if (summary) return [message];
    if (runId === undefined) return [...this.rest(), message];
    // Turns run one after the other, so those before this one have all their replies.
    const question = this.#held.findIndex((held) => held.runId === runId);
    return [...this.#held.splice(0, question + 1), message];
  }

  /** The messages of the user without a reply so far, once the last message was taken. */
  rest(): Message[] {
    return this.#held.splice(0);
  }
}

/** Messages, as the store lists them, in the order of their turns. */
export function inTurnOrder(messages: readonly Message[]): Message[] {
  const order = new TurnOrder();
  return [...messages.flatMap((message) => order.take(message)), ...order.rest()];
}
