import type { ServerResponse } from "node:http";

/** Answers that wait for a run. */
const WAITING = new WeakSet<ServerResponse>();

/**
 * Drop this answer as soon as its client closes one side of the connection. The answer waits for a run, which a client
 * aborts by hanging up; a client that hangs up closes its own side first. It may have done so before this call.
 */
export function endWithClient(response: ServerResponse): void {
  WAITING.add(response);
  if (response.socket?.readableEnded) response.socket.end();
}

/** Whether `endWithClient` was called for the answer. */
export const endsWithClient = (response: ServerResponse): boolean => WAITING.has(response);
