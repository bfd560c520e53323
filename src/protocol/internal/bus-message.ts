import type { z } from "zod";

const decoder = new TextDecoder();

/** Parse a JSON message; undefined if it is malformed, since any client of the bus may publish anything. */
export function readMessage<T>(schema: z.ZodType<T>, message: Uint8Array): T | undefined {
  try {
    return schema.safeParse(JSON.parse(decoder.decode(message))).data;
  } catch {
    return undefined;
  }
}
