import type { Message } from "./message.ts";

/** The reasoning among a message's parts, as one text. */
export const reasoningOf = (parts: Message["parts"] = []): string =>
  parts.map(({ type, text }) => (type === "reasoning" && typeof text === "string" ? text : "")).join("");
