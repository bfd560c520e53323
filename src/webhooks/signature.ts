import { createHmac } from "node:crypto";

/** What is sent: its id is the same each time. */
export interface SentMessage {
  id: string;
  payload: string;
}

/**
 * The headers of Standard Webhooks. Each key signs, so that a receiver accepts either while one replaces the other.
 * @param now in ms since 1970
 */
export function signedHeaders({ id, payload }: SentMessage, keys: readonly Buffer[], now: number) {
  const timestamp = String(Math.floor(now / 1_000));
  const signatures = keys.map((key) => {
    const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${payload}`).digest("base64");
    return `v1,${signature}`;
  });
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}
