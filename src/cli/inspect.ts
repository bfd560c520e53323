import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type WebSocket, WebSocketServer } from "ws";
import type { FloorView } from "../client/answers.ts";
import { type Client, createClient } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import type { StreamState, StreamStatus } from "../client/event-stream.ts";
import type { ServerEvent } from "../client/server-event.ts";
import { StatelyFeed, type StatelyMessage } from "./stately-feed.ts";

export interface InspectOptions {
  /** The floors to show. Empty: all floors that are in use, now or later. */
  floorIds: readonly string[];
  /** The port to listen on; 0 picks a free one. */
  port: number;
  /** The token that readers must present. Default: a random one, which is printed. */
  token?: string | undefined;
  /** The token or key for the node, if it requires authentication. */
  nodeToken?: string | undefined;
  signal: AbortSignal;
}

/** Concurrent readers, and floors shown when none is named. */
const MAX_READERS = 8;
const MAX_FLOORS = 64;
/** A reader that is this many bytes behind is disconnected; after reconnecting it gets the current actors. */
const MAX_UNSENT_BYTES = 8_388_608;
/** The pause before a floor is asked for again, in ms. */
const RETRY_MS = 1_000;
const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

/**
 * `interlock inspect [URL]`: stream what happens on floors of a node to consumers of `@statelyai/inspect`. Each reader
 * first receives the existing actors. It listens on loopback only, requires the token, and refuses pages from other
 * origins, which could otherwise read every floor unnoticed. While the node does not answer, it waits.
 *
 * @param onReady receives the address for readers, including the token
 * @param onFault receives a sentence: once each time the node stops answering, and before the exit code 1
 * @returns the exit code: 0 when it was stopped, 1 when the port is taken or the node refuses
 */
export async function inspect(
  baseUrl: string,
  options: InspectOptions,
  onReady: (address: string) => void,
  onFault: (why: string) => void,
): Promise<number> {
  const { floorIds, port, signal, nodeToken, token = randomBytes(24).toString("base64url") } = options;
  const client = createClient({ baseUrl, ...(nodeToken && { headers: { Authorization: `Bearer ${nodeToken}` } }) });
  const ending = new AbortController();
  const over = AbortSignal.any([signal, ending.signal]);
  const relay = new FeedRelay(client, over, ({ code, message }, hasAnswered) => {
    const isMissing = code === "unreachable" && !hasAnswered;
    onFault(`${message} Trying again.${isMissing ? ` ${NO_NODE}` : ""}`);
  });
  const server = createServer((_, response) => response.writeHead(426, { Connection: "close" }).end());
  const sockets = new WebSocketServer({ noServer: true, maxPayload: 1_024, perMessageDeflate: false });
  server.on("upgrade", (request, socket, head) => {
    const refusal = refusalOf(request, token, relay.readers.size);
    if (refusal) return void socket.end(`HTTP/1.1 ${refusal}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    sockets.handleUpgrade(request, socket, head, (reader) => relay.addReader(reader));
  });
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening").catch((cause: Error) => {
      throw new NoPort(whyNoPort(cause, port), { cause });
    });
    onReady(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/?token=${token}`);
    if (floorIds.length === 0) await relay.followAll();
    else await Promise.all(floorIds.map((floorId) => relay.follow(floorId)));
    return 0;
  } catch (error) {
    if (signal.aborted) return 0;
    if (!(error instanceof ClientError || error instanceof NoPort)) throw error;
    const isLockedOut = error instanceof ClientError && error.code === "unauthorized";
    onFault(isLockedOut ? `${error.message} ${NO_TOKEN}` : error.message);
    return 1;
  } finally {
    ending.abort();
    for (const reader of relay.readers) reader.terminate();
    server.close();
    server.closeAllConnections();
  }
}

const NO_NODE = "Start a node with `interlock serve`, or name another: interlock inspect URL";
const NO_TOKEN = "Set INTERLOCK_TOKEN to a token or key of the node.";

class NoPort extends Error {}

function whyNoPort({ code, message }: NodeJS.ErrnoException, port: number): string {
  return code === "EADDRINUSE"
    ? `port ${port} is in use: choose another with --port (0 picks a free one)`
    : `port ${port} cannot be used: ${message}`;
}

/** The HTTP status for a reader that is refused; undefined if it is admitted. */
function refusalOf(request: IncomingMessage, token: string, readers: number): string | undefined {
  const { host = "", origin } = request.headers;
  const isForeign = origin !== undefined && !LOOPBACK.test(URL.parse(origin)?.host ?? "");
  if (!LOOPBACK.test(host) || isForeign) return "403 Forbidden";
  const sentToken = URL.parse(request.url ?? "", "http://localhost")?.searchParams.get("token") ?? "";
  const [shown, wanted] = [Buffer.from(sentToken), Buffer.from(token)];
  if (shown.length !== wanted.length || !timingSafeEqual(shown, wanted)) return "401 Unauthorized";
  return readers >= MAX_READERS ? "503 Service Unavailable" : undefined;
}

type OnAway = (failure: ClientError, hasAnswered: boolean) => void;

/** Relays the feeds of the followed floors to the connected readers. */
class FeedRelay {
  readonly readers = new Set<WebSocket>();
  readonly #client: Client;
  readonly #signal: AbortSignal;
  readonly #onAway: OnAway;
  readonly #feeds = new Map<string, StatelyFeed>();
  /** The floors that are followed because they are or were in use, each with what ends it. */
  readonly #followed = new Map<string, AbortController>();
  #isAway = false;
  #hasAnswered = false;

  /** `onAway` is called once each time the node stops answering; `hasAnswered`: whether it ever did. */
  constructor(client: Client, signal: AbortSignal, onAway: OnAway) {
    this.#client = client;
    this.#signal = signal;
    this.#onAway = onAway;
  }

  addReader(reader: WebSocket): void {
    this.readers.add(reader);
    reader.on("close", () => this.readers.delete(reader));
    // A `close` event follows each error. Messages from readers are ignored.
    reader.on("error", () => {});
    for (const feed of this.#feeds.values()) for (const actor of feed.actors) reader.send(JSON.stringify(actor));
  }

  /**
   * Follow the floors in use until the signal aborts. An idle one is followed on, until its place is needed.
   * @throws ClientError when the node refuses
   */
  async followAll(): Promise<void> {
    const inUse = new Set<string>();
    const failed = Promise.withResolvers<never>();
    const reading = (async () => {
      const options = { signal: this.#signal, onStatus: this.#onStatus };
      for await (const event of this.#client.openFloors(options)) {
        noteUse(inUse, event);
        this.#followInUse(inUse, failed.reject);
      }
    })();
    await Promise.race([reading, failed.promise]);
  }

  #followInUse(inUse: ReadonlySet<string>, onFailed: (error: unknown) => void): void {
    for (const floorId of inUse) {
      if (this.#followed.has(floorId)) continue;
      if (!makeRoom(this.#followed, inUse)) return;
      const ending = new AbortController();
      this.#followed.set(floorId, ending);
      this.follow(floorId, AbortSignal.any([this.#signal, ending.signal])).catch((error: unknown) => {
        if (!ending.signal.aborted) onFailed(error);
      });
    }
  }

  /** Follow a floor until the signal aborts. @throws ClientError when the node refuses */
  async follow(floorId: string, signal = this.#signal): Promise<void> {
    const feed = new StatelyFeed(floorId, Date.now());
    this.#feeds.set(floorId, feed);
    try {
      const { position, ...floor } = await this.#read(floorId, signal);
      this.#send(feed.begin(floor));
      const options = { signal, onStatus: this.#onStatus, position };
      for await (const event of this.#client.openFloor(floorId, options)) {
        const isNew = event.type === "reset";
        this.#send(isNew ? feed.begin(await this.#read(floorId, signal)) : feed.convert(event));
      }
    } finally {
      if (this.#feeds.get(floorId) === feed) this.#feeds.delete(floorId);
    }
  }

  /** A floor as it is, once the node answers. @throws ClientError when the node refuses */
  async #read(floorId: string, signal: AbortSignal): Promise<FloorView> {
    for (;;) {
      try {
        const floor = await this.#client.getFloor(floorId, { signal });
        this.#onStatus("open");
        return floor;
      } catch (error) {
        if (!(error instanceof ClientError && error.retryable)) throw error;
        this.#onStatus("waiting", { failure: error });
      }
      await sleep(RETRY_MS, undefined, { signal });
    }
  }

  readonly #onStatus = (status: StreamStatus, { failure }: StreamState = {}): void => {
    if (status === "waiting" && failure && !this.#isAway) this.#onAway(failure, this.#hasAnswered);
    this.#isAway = status === "open" ? false : this.#isAway || failure !== undefined;
    this.#hasAnswered ||= status === "open";
  };

  #send(messages: readonly StatelyMessage[]): void {
    const frames = this.readers.size === 0 ? [] : messages.map((message) => JSON.stringify(message));
    for (const reader of this.readers) {
      for (const frame of frames) reader.send(frame);
      if (reader.bufferedAmount > MAX_UNSENT_BYTES) reader.terminate();
    }
  }
}

function noteUse(inUse: Set<string>, { type, data }: ServerEvent): void {
  if (type === "reset") inUse.clear();
  if (type !== "floor") return;
  if (data.state === "idle") inUse.delete(data.floorId);
  else inUse.add(data.floorId);
}

/** If the maximum is reached, stop following an idle floor. @returns false if all followed floors are in use */
function makeRoom(followed: Map<string, AbortController>, inUse: ReadonlySet<string>): boolean {
  if (followed.size < MAX_FLOORS) return true;
  for (const [floorId, ending] of followed) {
    if (inUse.has(floorId)) continue;
    ending.abort();
    followed.delete(floorId);
    return true;
  }
  return false;
}
