import { EventSource } from "eventsource";
import { onTestFinished } from "vitest";
import type { HeardEvent } from "./event-stream.ts";
import { Transcript } from "./transcript.ts";

export interface PageOptions {
  /** Whether a message may have this text, for a moment or for ever. */
  mayBeSaid: (text: string) => boolean;
  /** Where a session belongs: two that are active at once are a fault on one floor alone. Default: all on one. */
  floorOf?: (sessionId: string) => string;
  /** The places after which the logs of some sessions begin. */
  starts?: Record<string, number>;
}

/** A web page that follows a stream with the browser's own means: `EventSource`, and its `onmessage` alone. */
export class Page {
  /** Everything it heard, in order. */
  readonly heard: HeardEvent[] = [];
  /** What it was given and must never be given. */
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

  logOf(sessionId: string): HeardEvent[] {
    return this.transcriptOf(sessionId).logs.get(sessionId) ?? [];
  }

  /** What is being written there, as far as it was given since the stream was opened last. */
  writing(sessionId: string): string[] {
    return [...this.transcriptOf(sessionId).writing.values()];
  }

  /** Resolves when it holds; looked at with each event and each opening. Rejects when it was given what it must never be given. */
  async until(holds: () => boolean): Promise<void> {
    for (;;) {
      if (this.faults.length > 0) throw new Error(this.faults.join("\n"));
      if (holds()) return;
      await this.#changed.promise;
    }
  }

  #take(event: HeardEvent): void {
    this.heard.push(event);
    try {
      if (event.sessionId !== undefined) this.transcriptOf(event.sessionId).take(event);
    } catch (error) {
      this.faults.push((error as Error).message);
    }
    this.#tellChange();
  }

  #tellChange(): void {
    const told = this.#changed;
    this.#changed = Promise.withResolvers();
    told.resolve();
  }
}
