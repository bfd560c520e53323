import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Answers that wait for a run, or for long work. */
const WAITING = new WeakSet<ServerResponse>();

/**
 * Drop this answer as soon as its client closes one side of the connection. The answer waits for a run, or for other
 * work, which a client aborts by hanging up; a client that hangs up closes its own side first. It may have done so
 * before this call.
 */
export function endWithClient(response: ServerResponse): void {
  WAITING.add(response);
  if (response.socket?.readableEnded) endWithPeer(response.socket);
}

/**
 * End a socket whose peer has closed its own side. Without bytes to send it is closed at once: its peer may ask again
 * in the next moment, on another connection.
 */
export function endWithPeer(socket: Socket): void {
  if (socket.writableLength === 0) socket.destroy();
  else socket.end();
}

/** Whether `endWithClient` was called for the answer. */
export const endsWithClient = (response: ServerResponse): boolean => WAITING.has(response);
