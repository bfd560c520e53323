import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { OnHead } from "../node-internals.ts";

/** An answer that the system has, and that its client may not have yet. */
export interface SentAnswer {
  /** The client uses the connection again. */
  onNextRequest(): void;
  /** @param isBroken whether the connection was reset, or failed */
  onClose(socket: Socket, isBroken: boolean): void;
}

/** A socket and its requests. */
export interface HttpConnection {
  socket: Socket;
  /** Undefined for a trusted proxy, whose sockets count against the node's limit alone. */
  address: string | undefined;
  /** Accepted above a limit: the socket may only carry probes. */
  isSpare: boolean;
  /** Requests so far, with the one in progress. */
  requests: number;
  /** The last answer, if it is watched. */
  sent: SentAnswer | undefined;
  /** The request in progress. */
  response: ConnectionResponse | undefined;
  /** Requests that wait behind it; undefined until there was one. */
  waiting: [IncomingMessage, ServerResponse][] | undefined;
  /** The request in progress has a chunked body. */
  isChunked: boolean;
  /**
   * The answer to a request that could not be read or was refused for its head. It is sent after the answers to the
   * requests before it, and nothing behind the request is read.
   */
  farewell: string | undefined;
  /** Bytes that the kernel had accepted at the last check, and since when that number has not grown. */
  accepted: number;
  acceptedAt: number;
  /** What node:http does with the head of a request. */
  makeRequest: OnHead | undefined;
}

/** A response in progress names its socket. A request that is destroyed before its end no longer does. */
export const CONNECTION = Symbol("connection");
export type ConnectionResponse = ServerResponse & { [CONNECTION]?: HttpConnection | undefined };

/** The sockets of one address, or of all addresses. */
export interface SocketGroup {
  open: number;
  /** Sockets whose request in progress has a chunked body. */
  chunked: number;
  /** Idle sockets, longest idle first. */
  idle: Set<HttpConnection>;
}

/** The request in progress, if there is one, is over. */
export function leaveConnection(connection: HttpConnection): void {
  if (connection.response) connection.response[CONNECTION] = undefined;
  connection.response = undefined;
}
