import type { LoggedServerEvent } from "../client/server-event.ts";
import type { SessionId } from "../protocol/ids.ts";
import type { TimedFact } from "./stepped-floor.ts";

/** An event as in a saved log. */
export type PlayedEvent = LoggedServerEvent & { position: string };

/** The log of a floor that is stepped outside a server. */
export class PlayedLog {
  readonly events: PlayedEvent[] = [];
  readonly #seqs = new Map<string, number>();
  readonly #onEvent: (event: PlayedEvent, at: number) => void;

  constructor(onEvent: (event: PlayedEvent, at: number) => void = () => undefined) {
    this.#onEvent = onEvent;
  }

  /** Log the events among these facts. */
  add(facts: readonly TimedFact[]): void {
    for (const { at, fact } of facts) {
      if (fact.type === "event") this.#write(fact.event, at);
      else if (fact.type === "message.add" && !fact.isLogOver) {
        const { message } = fact;
        this.#write({ type: "message", sessionId: message.sessionId, data: { ...message, streaming: false } }, at);
      }
    }
  }

  #write(event: { type: string; data: unknown; sessionId?: SessionId; requestId?: string }, at: number): void {
    const { type, data, sessionId, requestId } = event;
    const entry = {
      type,
      data,
      timestamp: new Date(at).toISOString(),
      ...(sessionId !== undefined && { sessionId, seq: this.#nextSeq(sessionId) }),
      ...(requestId !== undefined && { requestId }),
      position: `sim.${this.events.length + 1}`,
    } as PlayedEvent;
    this.events.push(entry);
    this.#onEvent(entry, at);
  }

  #nextSeq(sessionId: string): number {
    const seq = (this.#seqs.get(sessionId) ?? 0) + 1;
    this.#seqs.set(sessionId, seq);
    return seq;
  }
}
