import type { ServerResponse } from "node:http";

/** Answers that wait for a run. */
const WAITING = new WeakSet<ServerResponse>();

/**
 * Send this answer only as long as its client keeps both sides of the connection open: it waits for a run, which a client
 * aborts by hanging up, and a closed connection begins with the end of what its client sends. The client may have hung up
 * before.
 */
export function endWithClient(response: ServerResponse): void {
  WAITING.add(response);
  if (response.socket?.readableEnded) response.socket.end();
}

export const endsWithClient = (response: ServerResponse): boolean => WAITING.has(response);
