import { EventSource } from "eventsource";
import { onTestFinished } from "vitest";
import type { StreamEvent } from "./frame-reader.ts";
import { Transcript } from "./transcript.ts";

export interface PageOptions {
  /** Whether a message may have this text, at some moment or at its end. */
  mayBeSaid: (text: string) => boolean;
  /** The places after which the logs of some sessions start. */
  starts?: Record<string, number>;
}

/** A web page that follows a stream with `EventSource` and its `onmessage` only. */
export class Page {
  /** Everything it received, in order. */
  readonly heard: StreamEvent[] = [];
  /** Violations of the protocol that it received. */
  readonly faults: string[] = [];
  /** How often the stream was opened. */
  opens = 0;
  readonly transcript: Transcript;
  #changed = Promise.withResolvers<void>();

  constructor(url: string, { mayBeSaid, starts = {} }: PageOptions) {
    this.transcript = new Transcript(starts);
    this.transcript.onText = (_, text) => {
      if (!mayBeSaid(text)) this.faults.push(`a text that nobody said: ${text}`);
    };
    const source = new EventSource(url);
    onTestFinished(() => source.close());
    source.onopen = () => {
      this.opens += 1;
      this.transcript.reconnect();
      this.#tellChange();
    };
    source.onmessage = ({ data }) => this.#take(JSON.parse(data));
  }

  logOf(sessionId: string): StreamEvent[] {
    return this.transcript.logs.get(sessionId) ?? [];
  }

  /**
   * Resolves when the condition holds; checked after each event and each opening. Rejects after a violation of the
   * protocol.
   */
  async until(holds: () => boolean): Promise<void> {
    for (;;) {
      if (this.faults.length > 0) throw new Error(this.faults.join("\n"));
      if (holds()) return;
      await this.#changed.promise;
    }
  }

  #take(event: StreamEvent): void {
    this.heard.push(event);
    try {
      if (event.sessionId !== undefined) this.transcript.take(event);
    } catch (error) {
      this.faults.push((error as Error).message);
    }
    this.#tellChange();
  }

  #tellChange(): void {
    const changed = this.#changed;
    this.#changed = Promise.withResolvers();
    changed.resolve();
  }
}
