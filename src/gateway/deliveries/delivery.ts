// Rule C32 of docs/inside/correctness.md.
import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../shared/ports/clock.ts";
import { CONNECTION, type ConnectionResponse, type SentAnswer } from "../http/sockets/http-connection.ts";

/**
 * `open`: the answer is made or sent. `sent`: the system has all of it. `arrived`: the client reads it. `lost`: the
 * client cannot have it, or it says itself that the outcome is unknown. `doubtful`: it cannot be told.
 */
export type DeliveryState = "open" | "sent" | "arrived" | "lost" | "doubtful";

/** How long after the end of an answer a broken connection says that it did not arrive, in ms. */
export const RIGHT_AFTER_MS = 1_000;

/** How a connection ended behind an answer. */
export interface ConnectionEnd {
  /** Since the system had all of the answer, in ms. */
  afterMs: number;
  /** It was reset, or failed. */
  isBroken: boolean;
  /** The client closed it; otherwise this node did. */
  isByClient: boolean;
  /** HTTP leaves it open behind the answer. */
  isKept: boolean;
  /** The client had asked for that in words, as programs do that keep connections. */
  isWanted: boolean;
  /** A browser had used it before. */
  isBrowsersOwn: boolean;
  /** Something acted for the answer: a tool was called. */
  hasActed: boolean;
}

/** What the end of its connection says of an answer. */
export function deliveryAfter(end: ConnectionEnd): DeliveryState {
  if (end.afterMs > RIGHT_AFTER_MS) return "arrived";
  // A client that closes with bytes that it has not read, or is gone when they come, resets the connection.
  if (end.isBroken) return "lost";
  if (!end.isByClient || !end.isKept) return "arrived";
  // A browser does not close a connection that it has just used. If it breaks, the browser sends the request again.
  if (end.isBrowsersOwn) return "lost";
  // A program that asks and ends does the same as a proxy that reads the answer and breaks.
  return end.isWanted && end.hasActed ? "doubtful" : "arrived";
}

const DELIVERY = Symbol("delivery");
type WatchedResponse = ConnectionResponse & { [DELIVERY]?: Delivery };

// One function each for all answers, because every write has one.
function onFinish(this: WatchedResponse): void {
  this[DELIVERY]!.onFinish(this);
}
function onClose(this: WatchedResponse): void {
  this[DELIVERY]!.onEnd();
}

/** Watches whether the answer to a request reaches its client. */
export class Delivery implements SentAnswer {
  readonly #clock: Clock;
  readonly #onChange: (state: DeliveryState) => void;
  #isWanted = false;
  #isBrowsersOwn = false;
  /** Until it is known whether the answer arrived. */
  #socket: Socket | undefined;
  #isKept = false;
  #state: DeliveryState = "open";
  #sentAt = 0;
  #hasActed = false;

  constructor(clock: Clock, onChange: (state: DeliveryState) => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** @param headers the request's */
  watch(response: WatchedResponse, headers: IncomingHttpHeaders): void {
    this.#socket = response.socket ?? undefined;
    const connection = response[CONNECTION];
    this.#isWanted = headers.connection?.toLowerCase() === "keep-alive";
    this.#isBrowsersOwn = (connection?.requests ?? 0) > 1 && headers["user-agent"]?.startsWith("Mozilla/") === true;
    if (response.destroyed) return this.#become("lost");
    response[DELIVERY] = this;
    response.on("finish", onFinish);
    response.on("close", onClose);
  }

  /** The system has all of the answer. */
  onFinish(response: ConnectionResponse): void {
    if (this.#state !== "open") return;
    this.look();
    // The client is told that the outcome is unknown.
    if (response.statusCode >= 500) this.#become("lost");
    if (this.#state !== "open") return;
    this.#sentAt = this.#clock.now();
    this.#isKept = response.shouldKeepAlive;
    this.#become("sent");
    const connection = response[CONNECTION];
    if (connection) connection.sent = this;
  }

  /** The answer is over: one that was not sent whole is lost. */
  onEnd(): void {
    if (this.#state === "open") this.#become("lost");
  }

  /** Learn what the socket says by now: a client that has closed its side before its answer asks again perhaps. */
  look(): void {
    if (this.#state === "open" && this.#socket?.readableEnded) this.#become("lost");
  }

  /** Whether a browser had used the connection before. If it breaks, the browser sends the request again by itself. */
  get isBrowsersOwn(): boolean {
    return this.#isBrowsersOwn;
  }

  /** The client reads the answer. */
  arrive(): void {
    this.#become("arrived");
  }

  /** The answer ends before its outcome is known. */
  lose(): void {
    this.#become("lost");
  }

  /** A tool was called for the answer. */
  noteAct(): void {
    this.#hasActed = true;
  }

  /** The socket whose peer should have the answer; undefined if it is known whether it has. */
  get peer(): Socket | undefined {
    return this.#state === "sent" ? this.#socket : undefined;
  }

  onNextRequest(): void {
    if (this.#state === "sent") this.#become("arrived");
  }

  onClose(socket: Socket, isBroken: boolean): void {
    if (this.#state !== "sent") return;
    const state = deliveryAfter({
      afterMs: this.#clock.now() - this.#sentAt,
      isBroken,
      isByClient: socket.readableEnded,
      isKept: this.#isKept,
      isWanted: this.#isWanted,
      isBrowsersOwn: this.#isBrowsersOwn,
      hasActed: this.#hasActed,
    });
    this.#become(state);
  }

  #become(state: DeliveryState): void {
    if (this.#state === state) return;
    this.#state = state;
    if (state !== "open" && state !== "sent") this.#socket = undefined;
    this.#onChange(state);
  }
}
