import type { z } from "zod";

const decoder = new TextDecoder();

/** What a message of JSON says; undefined where it makes no sense: on a bus anybody may publish anything. */
export function readMessage<T>(schema: z.ZodType<T>, message: Uint8Array): T | undefined {
  try {
    return schema.safeParse(JSON.parse(decoder.decode(message))).data;
  } catch {
    return undefined;
  }
}
