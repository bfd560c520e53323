import type { Message } from "../../../src/protocol/message.ts";

type Known = Pick<Message, "id" | "role" | "status">;

/** The number of turns that begin with a message or after it, counted like a rollback: without queued ones. */
export function turnsFrom(messages: readonly Known[], id: string): number {
  const first = messages.findIndex((message) => message.id === id);
  if (first < 0) return 0;
  return messages.slice(first).filter(({ role, status }) => role === "user" && isFinished(status)).length;
}

const isFinished = (status: Known["status"]) => status !== "queued" && status !== "running";
