import { EventSource } from "eventsource";
import { onTestFinished } from "vitest";
import type { StreamEvent } from "./frame-reader.ts";
import { Transcript } from "./transcript.ts";

export interface PageOptions {
  /** Whether a message may have this text, at some moment or at its end. */
  mayBeSaid: (text: string) => boolean;
  /**
   * The floor of a session, because two active sessions are a fault only on the same floor. Default: the same floor for
   * all.
   */
  floorOf?: (sessionId: string) => string;
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
  readonly #transcripts = new Map<string, Transcript>();
  readonly #floorOf: (sessionId: string) => string;
  readonly #mayBeSaid: (text: string) => boolean;
  readonly #starts: Record<string, number>;
  #changed = Promise.withResolvers<void>();

  constructor(url: string, { mayBeSaid, floorOf = () => "", starts = {} }: PageOptions) {
    this.#mayBeSaid = mayBeSaid;
    this.#floorOf = floorOf;
    this.#starts = starts;
    const source = new EventSource(url);
    onTestFinished(() => source.close());
    source.onopen = () => {
      this.opens += 1;
      for (const transcript of this.#transcripts.values()) transcript.reconnect();
      this.#tellChange();
    };
    source.onmessage = ({ data }) => this.#take(JSON.parse(data));
  }

  transcriptOf(sessionId: string): Transcript {
    const floor = this.#floorOf(sessionId);
    let transcript = this.#transcripts.get(floor);
    if (!transcript) {
      transcript = new Transcript(this.#starts);
      transcript.onText = (_, text) => {
        if (!this.#mayBeSaid(text)) this.faults.push(`a text that nobody said: ${text}`);
      };
      this.#transcripts.set(floor, transcript);
    }
    return transcript;
  }

  logOf(sessionId: string): StreamEvent[] {
    return this.transcriptOf(sessionId).logs.get(sessionId) ?? [];
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
      if (event.sessionId !== undefined) this.transcriptOf(event.sessionId).take(event);
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
