// Rule C29 of docs/inside/correctness.md.
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from "node:http";
import { BlockList, isIPv6, type Socket } from "node:net";
import { BOUNDS } from "../../../config/bounds.ts";
import { flow } from "../../../shared/flow.ts";
import type { Clock, Timer } from "../../../shared/ports/clock.ts";
import { every } from "../../../shared/waiting.ts";
import { isEventStream } from "../../streams/sse-writer.ts";
import { networkOf } from "../network-address.ts";
import { allowHalfOpen, handleHeads, keepOpenBehind, NO_HTTP, newestRequest, type OnHead } from "../node-internals.ts";
import { endsWithClient, endWithPeer } from "./hang-up.ts";
import {
  CONNECTION,
  type ConnectionResponse,
  type HttpConnection,
  leaveConnection,
  type SocketGroup,
} from "./http-connection.ts";
import type { LoopPace } from "./loop-pace.ts";
import { afterNextPoll, StandStill } from "./stand-still.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** The whole answer to a request that is refused for its head; undefined for any other. */
type RefusalOf = (request: IncomingMessage) => string | undefined;

export interface SocketsOptions {
  pace: LoopPace;
  clock: Clock;
  /** The maximum number of sockets of the node. */
  max: number;
  /** The maximum number of sockets of one address. */
  maxPerAddress: number;
  /** Addresses and networks of trusted proxies. */
  proxies: readonly string[];
  /** A client was cut off because it had not read its answer for too long. */
  onCut: () => void;
}

/** Sockets above the limit that may carry a probe, so that operators reach a full node. */
const SPARE = 64;
/** Paths of the probes. */
const PROBES: ReadonlySet<string | undefined> = new Set(["/health", "/ready"]);
/** How often unread answers are looked for, in ms. */
const LOOK_MS = 5_000;

/**
 * The sockets of a server. Only one request of a socket is in progress at a time, so a socket has at most one unsent
 * answer. The number of waiting requests, the sockets per address and the time that an answer may stay unread are
 * limited.
 */
export class Sockets {
  readonly #options: SocketsOptions;
  readonly #standStill: StandStill;
  readonly #connections = new Map<Socket, HttpConnection>();
  readonly #all: SocketGroup = { open: 0, chunked: 0, idle: new Set() };
  readonly #byAddress = new Map<string, SocketGroup>();
  readonly #spare = new Set<HttpConnection>();
  readonly #proxies = new BlockList();
  // One function each for all sockets, because an idle stream would keep its own in memory.
  readonly #onSocketClose: (this: Socket, isBroken: boolean) => void;
  readonly #onSocketEnd: (this: Socket) => void;
  readonly #onResponseClose: (this: ConnectionResponse) => void;
  readonly #onHead: OnHead;
  #handler: Handler | undefined;
  #refusalOf: RefusalOf = () => undefined;
  #timer: Timer | undefined;

  constructor(options: SocketsOptions) {
    this.#options = options;
    this.#standStill = new StandStill(options.clock);
    const sockets = this;
    this.#onSocketClose = function (isBroken) {
      const connection = sockets.#connections.get(this);
      connection?.sent?.onClose(this, isBroken);
      if (connection) sockets.remove(connection);
    };
    this.#onSocketEnd = function () {
      const connection = sockets.#connections.get(this);
      if (connection) sockets.#noteEnd(connection);
    };
    this.#onResponseClose = function () {
      if (this[CONNECTION]) sockets.#continue(this[CONNECTION]);
    };
    this.#onHead = (request, keepsAlive) => {
      const connection = this.#connections.get(request.socket);
      if (!connection?.makeRequest || connection.farewell !== undefined) return NO_HTTP;
      connection.farewell = this.#refusalOf(request);
      if (connection.farewell !== undefined) this.#endRefused(connection);
      else if (this.#acceptHead(connection, request)) return connection.makeRequest(request, keepsAlive);
      return NO_HTTP;
    };
    for (const proxy of options.proxies) {
      const [address = "", bits] = proxy.split("/");
      const family = isIPv6(address) ? "ipv6" : "ipv4";
      if (bits === undefined) this.#proxies.addAddress(address, family);
      else this.#proxies.addSubnet(address, Number(bits), family);
    }
  }

  /** Register a server's sockets. All servers have the same handler and the same refusals. */
  serve(handler: Handler, options: ServerOptions, refusalOf: RefusalOf): Server {
    this.#handler = handler;
    this.#refusalOf = refusalOf;
    const handle: Handler = (request, response) => this.#handle(request, response);
    const server = createServer(options, handle);
    allowHalfOpen(server);
    // Whether to read the body is known after the caller is known.
    server.on("checkContinue", handle);
    server.on("connection", (socket) => {
      this.#options.pace.noteConnection();
      this.#accept(socket);
    });
    return server;
  }

  start(): void {
    this.#standStill.start();
    this.#timer = every(this.#options.clock, LOOK_MS, () => this.#cutStalled());
  }

  stop(): void {
    this.#standStill.stop();
    this.#timer?.cancel();
  }

  /**
   * End a socket whose next bytes cannot be read, or do not come. The answers that are under way are sent whole, except
   * for an event stream, which has no end.
   * @param answer to the request that could not be read
   */
  endUnreadable(socket: Socket, answer: string): void {
    const connection = this.#connections.get(socket);
    if (!connection || (connection.response && isEventStream(connection.response))) return void socket.destroy();
    // It ends when its last bytes are sent.
    if (socket.writableEnded) return;
    // Each further piece of such a socket is reported again. Its end is the last one.
    if (connection.farewell !== undefined) return void (socket.readableEnded && socket.destroy());
    connection.farewell = answer;
    const { response, waiting } = connection;
    const broken = newestRequest(connection.socket);
    if (!broken || broken.complete) return this.#endRefused(connection);
    // A body that is not whole is of the newest request, so this one waits behind the others …
    if (waiting?.at(-1)?.[0] === broken) return void waiting.pop();
    // … or is in progress, and was read no further than its body …
    if (response?.req === broken && !response.headersSent) return void socket.end(answer);
    // … or has its answer.
    connection.farewell = "";
    this.#endRefused(connection);
  }

  /**
   * End a socket behind this answer, whose request has a body that is still being sent. Node.js would close it at once,
   * and the system would then reset it, so that the client may not read the answer. Only the socket's own side is
   * closed; its client has as long to close the other one as to read the answer.
   */
  endAfterAnswer(response: ConnectionResponse): void {
    const connection = response[CONNECTION];
    if (!connection) return;
    response.once("prefinish", () => {
      connection.farewell ??= "";
      keepOpenBehind(response);
    });
  }

  #accept(socket: Socket): void {
    const address = this.#isProxy(socket.remoteAddress) ? undefined : networkOf(socket.remoteAddress);
    const connection: HttpConnection = {
      socket,
      address,
      isSpare: false,
      requests: 0,
      sent: undefined,
      response: undefined,
      waiting: undefined,
      isChunked: false,
      farewell: undefined,
      accepted: 0,
      acceptedAt: 0,
      makeRequest: undefined,
    };
    const group = address === undefined ? undefined : this.#groupOf(address);
    const hasRoom =
      (!group || group.open < this.#options.maxPerAddress || closeOldest(group.idle, this)) &&
      (this.#all.open < this.#options.max || closeOldest(this.#all.idle, this));
    if (!hasRoom) {
      if (this.#spare.size >= SPARE) closeOldest(this.#spare, this);
      connection.isSpare = true;
    }
    this.#connections.set(socket, connection);
    this.#add(connection);
    this.#watchHeads(connection);
    socket.on("close", this.#onSocketClose);
    socket.on("end", this.#onSocketEnd);
  }

  #add(connection: HttpConnection): void {
    if (connection.isSpare) return void this.#spare.add(connection);
    for (const group of this.#groupsOf(connection)) {
      group.open += 1;
      group.idle.add(connection);
    }
  }

  /** Drop a socket that is closed or about to close. */
  remove(connection: HttpConnection): void {
    if (!this.#connections.delete(connection.socket)) return;
    connection.sent?.onClose(connection.socket, false);
    connection.waiting = undefined;
    leaveConnection(connection);
    this.#noteChunked(connection, false);
    if (connection.isSpare) return void this.#spare.delete(connection);
    for (const group of this.#groupsOf(connection)) {
      group.open -= 1;
      group.idle.delete(connection);
    }
    if (connection.address !== undefined && this.#groupOf(connection.address).open === 0)
      this.#byAddress.delete(connection.address);
  }

  #groupsOf({ address }: HttpConnection): SocketGroup[] {
    return address === undefined ? [this.#all] : [this.#all, this.#groupOf(address)];
  }

  #groupOf(address: string): SocketGroup {
    const known = this.#byAddress.get(address);
    if (known) return known;
    const group: SocketGroup = { open: 0, chunked: 0, idle: new Set() };
    this.#byAddress.set(address, group);
    return group;
  }

  #isProxy(address: string | undefined): boolean {
    return address !== undefined && this.#proxies.check(address, isIPv6(address) ? "ipv6" : "ipv4");
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connections.get(request.socket);
    // The socket was closed while its last bytes were being read.
    if (!connection) return;
    if (connection.isSpare && !PROBES.has(request.url)) return void connection.socket.destroy();
    if (connection.response) {
      connection.waiting ??= [];
      return void connection.waiting.push([request, response]);
    }
    this.#occupy(connection, response);
    const handle = () => this.#handleUnlessClosed(request, response);
    if (this.#standStill.isWaking() && !PROBES.has(request.url)) {
      return afterNextPoll(() => {
        // The client, which may have closed only its side, gave up while the process stood still, and counts on
        // nothing.
        if (connection.socket.readableEnded || connection.socket.destroyed) connection.socket.destroy();
        else handle();
      });
    }
    if (connection.isChunked || PROBES.has(request.url)) handle();
    else this.#options.pace.request(handle);
  }

  /**
   * Check the head of each request before Node.js makes a request object of it. A refusal stops the parser in the bytes
   * that it has read. Otherwise it would make an object for each of the thousands of requests that one read may hold,
   * and the server would fail each of them with an error, which takes longer than answering them.
   */
  #watchHeads(connection: HttpConnection): void {
    connection.makeRequest = handleHeads(connection.socket, this.#onHead);
  }

  /**
   * Whether a request may be worked on or wait, as its head says. Each chunk of a body costs work, however small it is,
   * and is kept by itself while the request waits: megabytes for 64 KiB in chunks of one byte.
   */
  #acceptHead(connection: HttpConnection, { headers }: IncomingMessage): boolean {
    const isChunked = headers["transfer-encoding"] !== undefined;
    const mayChunk = !connection.isSpare && !connection.response && this.#hasRoomForChunks(connection);
    const mayWait = !connection.response || (connection.waiting?.length ?? 0) < BOUNDS.pipelined;
    if (!mayWait || (isChunked && !mayChunk)) {
      this.remove(connection);
      connection.socket.destroy();
      return false;
    }
    if (isChunked) this.#noteChunked(connection, true);
    return true;
  }

  #hasRoomForChunks({ address }: HttpConnection): boolean {
    const ofAddress = address === undefined ? 0 : this.#groupOf(address).chunked;
    return ofAddress < BOUNDS.addressChunkedBodies && this.#all.chunked < BOUNDS.chunkedBodies;
  }

  #noteChunked(connection: HttpConnection, isNow: boolean): void {
    if (connection.isChunked === isNow) return;
    connection.isChunked = isNow;
    for (const group of this.#groupsOf(connection)) group.chunked += isNow ? 1 : -1;
  }

  /**
   * The client sends nothing more. A whole request is carried out and answered, and then the connection ends. An event
   * stream, an answer that waits for a run, and requests that others wait behind end with their client, because it has
   * probably left.
   */
  #noteEnd({ socket, response, waiting, farewell }: HttpConnection): void {
    // Node.js ends the socket if there is no response, and behind the last one, which may be before the farewell.
    if (!response) return;
    const hasLeft = farewell === undefined && waiting?.length;
    if (hasLeft || isEventStream(response) || endsWithClient(response)) return endWithPeer(socket);
    const last = waiting?.at(-1)?.[1] ?? response;
    if (farewell === undefined) last.shouldKeepAlive = false;
    else keepOpenBehind(last);
  }

  /** Until the response is closed, the connection's other requests wait. */
  #occupy(connection: HttpConnection, response: ConnectionResponse): void {
    connection.requests += 1;
    connection.sent?.onNextRequest();
    connection.sent = undefined;
    connection.response = response;
    response[CONNECTION] = connection;
    if (!connection.isSpare) for (const group of this.#groupsOf(connection)) group.idle.delete(connection);
    response.on("close", this.#onResponseClose);
  }

  /** The request in progress is over: begin the next one of the socket, if there is one. */
  #continue(connection: HttpConnection): void {
    this.#noteChunked(connection, false);
    leaveConnection(connection);
    const next = connection.waiting?.shift();
    if (next) {
      this.#occupy(connection, next[1]);
      return this.#options.pace.nextRequest(() => this.#handleUnlessClosed(...next));
    }
    if (!connection.isSpare) for (const group of this.#groupsOf(connection)) group.idle.add(connection);
    this.#endRefused(connection);
  }

  /** Answer the request that was refused for its head, when the answers before it are sent. */
  #endRefused({ socket, farewell, response }: HttpConnection): void {
    if (farewell !== undefined && !response && socket.writable) socket.end(farewell);
  }

  #handleUnlessClosed(request: IncomingMessage, response: ServerResponse): void {
    if (response.destroyed) return;
    if (request.method !== "GET") flow.onHop?.("socket", `${request.method} ${request.url}`);
    this.#handler?.(request, response);
  }

  /** Event streams have their own stall check, so an answer is checked once all of it is written. */
  #cutStalled(): void {
    const now = this.#options.clock.now();
    for (const connection of this.#connections.values()) {
      const { socket, response, farewell } = connection;
      const isEnding = response?.writableEnded || (farewell !== undefined && (!response || socket.writableEnded));
      if (!isEnding) continue;
      const accepted = socket.bytesWritten - socket.writableLength;
      if (accepted !== connection.accepted || connection.acceptedAt === 0) {
        connection.accepted = accepted;
        connection.acceptedAt = now;
      } else if (now - connection.acceptedAt >= BOUNDS.stallMs) {
        if (!response?.writableEnded) socket.destroy();
        else {
          this.#options.onCut();
          socket.resetAndDestroy();
        }
      }
    }
  }
}

/** @returns whether a socket was closed */
function closeOldest(connections: Set<HttpConnection>, sockets: Sockets): boolean {
  const [oldest] = connections;
  if (!oldest) return false;
  sockets.remove(oldest);
  oldest.socket.destroy();
  return true;
}
