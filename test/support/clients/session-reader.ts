import { setTimeout as pause } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { EventStream } from "./event-stream.ts";
import type { StreamEvent } from "./frame-reader.ts";
import { Transcript } from "./transcript.ts";

/** A client of one stream that reconnects after its position, however often it is cut off. */
export class SessionReader {
  readonly transcript: Transcript;
  #url: string;
  #stream: EventStream | undefined;
  #fault: Error | undefined;
  #position: string | undefined;
  #returning: Promise<void> | undefined;
  /** The next reconnection sends the position in the query, not in the header. */
  byQuery = false;

  constructor(url: string, transcript = new Transcript()) {
    this.#url = url;
    this.transcript = transcript;
  }

  /** Opens a reader of this path of a node, until the test ends. */
  static async at({ url }: { url: string }, path: string, transcript?: Transcript): Promise<SessionReader> {
    const reader = new SessionReader(`${url}${path}`, transcript);
    onTestFinished(() => reader.close());
    return await reader.open();
  }

  /** Opens a reader of a session, until the test ends. */
  static of(node: { url: string }, id: string): Promise<SessionReader> {
    return SessionReader.at(node, `/session/${id}/events`);
  }

  /** The received events of a session, in order. @param type only those of this type */
  eventsOf(id: string, type?: string): StreamEvent[] {
    return (this.transcript.logs.get(id) ?? []).filter((event) => type === undefined || event.type === type);
  }

  /** Resolves when so many events of this type were received of a session. */
  async has(id: string, type: string, count = 1): Promise<void> {
    await this.until(() => this.eventsOf(id, type).length >= count);
  }

  get position(): string | undefined {
    return this.#stream?.position ?? this.#position;
  }

  get stream(): EventStream {
    return this.#stream!;
  }

  /** Open the stream; an earlier one is closed. */
  async open(): Promise<this> {
    this.#cut();
    this.transcript.reconnect();
    const url = new URL(this.#url);
    const headers: Record<string, string> = {};
    if (this.#position !== undefined) {
      if (this.byQuery) url.searchParams.set("lastEventId", this.#position);
      else headers["Last-Event-ID"] = this.#position;
    }
    const stream = EventStream.begin(url.href, headers);
    stream.onEvent = (event) => {
      // Events after the cut do not count.
      if (this.#stream === stream) this.#take(event);
    };
    this.#stream = stream;
    // 204: the log has ended, and there are no more events.
    await stream.until(({ retries, status }) => retries.length > 0 || status === 204);
    return this;
  }

  /** The node has another address now; the path stays the same. */
  moveTo(origin: string): void {
    const { pathname, search } = new URL(this.#url);
    this.#url = `${origin}${pathname}${search}`;
  }

  /**
   * Resolves when the condition holds for the received events. A node that has no room, or whose store does not answer,
   * sends its readers away for a while.
   */
  async until(holds: (transcript: Transcript) => boolean): Promise<void> {
    for (;;) {
      const { stream } = this;
      await stream.until(() => {
        if (this.#fault) throw this.#fault;
        return holds(this.transcript) || awayMs(stream) !== undefined;
      });
      if (holds(this.transcript)) return;
      // Whoever waits for this stream too has perhaps opened another one.
      if (this.#stream === stream) this.#returning ??= this.#return(awayMs(stream)!);
      await this.#returning;
    }
  }

  async #return(afterMs: number): Promise<void> {
    await pause(afterMs);
    await this.open();
    this.#returning = undefined;
  }

  /** Throws if a violation of the protocol was received. */
  check(): void {
    if (this.#fault) throw this.#fault;
  }

  close(): void {
    this.#cut();
  }

  #cut(): void {
    if (!this.#stream) return;
    this.#position = this.#stream.position ?? this.#position;
    this.#stream.cut();
    this.#stream = undefined;
  }

  #take(event: Parameters<Transcript["take"]>[0]): void {
    try {
      this.transcript.take(event);
    } catch (error) {
      this.#fault ??= error as Error;
    }
  }
}

/** How long the node sends the reader of this stream away, in ms. */
function awayMs({ ending, events }: EventStream): number | undefined {
  const last = events.at(-1);
  const isSentAway = ending === "clean" && last?.type === "bye" && last.data["reason"] === "overloaded";
  return isSentAway ? Number(last.data["reconnectInMs"]) : undefined;
}
