import type { Decision } from "../../protocol/decision.ts";
import type { FloorView } from "../answers.ts";
import type { Client } from "../client.ts";
import type { ServerEvent } from "../server-event.ts";
import { Live, type LiveState } from "./live.ts";

export interface FloorLiveView extends LiveState {
  /** Undefined before the first answer. */
  floor: Omit<FloorView, "decisions" | "position"> | undefined;
  /** Newest last. */
  decisions: readonly Decision[];
  /** Events since the view was opened or reset, newest last: transitions, decisions, sessions. */
  events: readonly ServerEvent[];
  /** The newest position of the floor's log: it grows with messages and titles too, which are not among `events`. */
  position?: string | undefined;
  /** When the server last said that it no longer has the events after the view's position, in ms since 1970. */
  resetAt?: number | undefined;
}

/** Events and decisions that are kept. Older ones are in the floor's log. */
const MAX_EVENTS = 500;
const MAX_DECISIONS = 50;
/** A floor is read at most once in this many ms. */
const READ_EVERY_MS = 200;

/** One floor: its holder, the sessions paused below it, those that wait, and the decisions. */
export class LiveFloor extends Live<FloorLiveView> {
  readonly id: string;
  readonly #client: Client;
  /** The signal of the stream for which the floor is being read. */
  #readingFor: AbortSignal | undefined;
  #isStale = false;

  constructor(client: Client, id: string) {
    super({ status: "connecting", floor: undefined, decisions: [], events: [] });
    this.#client = client;
    this.id = id;
  }

  protected async follow(signal: AbortSignal): Promise<void> {
    if (this.known.position === undefined) await this.#load(signal);
    const { note: onStatus } = this;
    const onPosition = (position: string) => this.#grow(position, signal);
    const stream = this.#client.openFloor(this.id, { position: this.known.position, signal, onStatus, onPosition });
    for await (const event of stream) {
      if (event.type === "reset") {
        await this.#load(signal);
        this.change({ resetAt: Date.now(), events: [] });
      } else if (event.type !== "bye") this.#apply(event);
    }
  }

  async #load(signal: AbortSignal): Promise<void> {
    const { decisions, position, ...floor } = await this.#client.getFloor(this.id, { signal });
    this.change({ floor, decisions, position: this.known.position ?? position });
  }

  #apply(event: ServerEvent): void {
    const events = [...this.known.events.slice(1 - MAX_EVENTS), event];
    if (event.type === "arbitration") {
      this.change({ events, decisions: [...this.known.decisions.slice(1 - MAX_DECISIONS), event.data] });
    } else this.change({ events });
  }

  /** The log has grown. The server repeats a stream's first position. */
  #grow(position: string, signal: AbortSignal): void {
    if (position === this.known.position) return;
    this.change({ position });
    this.#isStale = true;
    if (this.#readingFor !== signal) void this.#readAgain(signal);
  }

  /**
   * The events reveal neither the order of a floor's lists nor its sessions' titles, so the floor is read, and read
   * again if it changed meanwhile.
   */
  async #readAgain(signal: AbortSignal): Promise<void> {
    this.#readingFor = signal;
    while (this.#isStale && !signal.aborted) {
      this.#isStale = false;
      try {
        const { decisions, position, ...floor } = await this.#client.getFloor(this.id, { signal });
        this.change({ floor });
      } catch {
        // The stream reports when the floor is unreachable, and then delivers what was missed.
        this.#isStale = false;
      }
      await new Promise((resolve) => setTimeout(resolve, READ_EVERY_MS));
    }
    if (this.#readingFor === signal) this.#readingFor = undefined;
  }
}
