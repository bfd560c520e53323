import type { z } from "zod";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const writeMessage = (message: unknown): Uint8Array => encoder.encode(JSON.stringify(message));

/** Parse a JSON message; undefined if it is malformed, since any client of the bus may publish anything. */
export function readMessage<T>(schema: z.ZodType<T>, message: Uint8Array): T | undefined {
  try {
    return schema.safeParse(JSON.parse(decoder.decode(message))).data;
  } catch {
    return undefined;
  }
}
