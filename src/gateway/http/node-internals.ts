/**
 * What Interlock uses of `node:http` beyond its documentation, for Node.js 24. A test of each shows whether another
 * release still does it.
 */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Called by a socket's parser with the head of each request, before there is a request object for its listeners. */
export type OnHead = (request: IncomingMessage, keepsAlive: boolean) => number;

/** The return value of `OnHead` that stops the parser: the next bytes are not HTTP, as after an upgrade. */
export const NO_HTTP = 2;

interface Internals {
  server: { httpAllowHalfOpen?: boolean };
  socket: { parser?: { onIncoming: OnHead; incoming?: IncomingMessage | null } | null };
  response: { _last?: boolean; _header?: string | null };
}

/** Answer clients that close their side of the connection behind a whole request, too (RFC 9112, 9.6). */
export function allowHalfOpen(server: Server & Internals["server"]): void {
  server.httpAllowHalfOpen = true;
}

/**
 * Have the heads of a new socket's requests handled by this function.
 * @returns what Node.js does with them; undefined for a socket that is closed already
 */
export function handleHeads({ parser }: Socket & Internals["socket"], onHead: OnHead): OnHead | undefined {
  if (!parser) return undefined;
  const makeRequest = parser.onIncoming;
  parser.onIncoming = onHead;
  return makeRequest;
}

/** The newest request of the socket, until it is answered. `complete`: whether all of it has been read. */
export const newestRequest = ({ parser }: Socket & Internals["socket"]): IncomingMessage | undefined =>
  parser?.incoming ?? undefined;

/** Leave the socket open behind this answer, although it says `Connection: close`: more is to be sent. */
export function keepOpenBehind(response: ServerResponse & Internals["response"]): void {
  response._last = false;
}

/**
 * Node.js keeps the text of a sent head for as long as its answer is open, half a kilobyte for each stream, and uses it
 * only as a sign that a head was sent: replace it by a shared text.
 */
export function replaceSentHead(response: ServerResponse & Internals["response"], by: string): void {
  response._header = by;
}

export const sentHeadOf = ({ _header }: ServerResponse & Internals["response"]): string | null | undefined => _header;
