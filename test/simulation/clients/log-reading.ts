import { must } from "../../../src/policy/arrangement-check.ts";
import type { Delta, LogEntry } from "../../../src/protocol/event.ts";
import { isFloorEvent } from "../../../src/protocol/event-logs.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { parseLogPosition } from "../../../src/protocol/position.ts";
import type { Watch } from "../checks/watch.ts";
import type { GatewaySide, Opening, Target } from "../nodes/gateway-side.ts";
import { AccumulatedTexts } from "./accumulated-texts.ts";
import type { Reading } from "./reader.ts";
import type { Wire } from "./wire.ts";

/** Reads one session, or a floor with its decisions, from the beginning. */
export class LogReading implements Reading {
  readonly #target: Target;
  readonly #watch: Watch;
  readonly #texts = new AccumulatedTexts();
  /** The place of the last event: in the session's log, or in the floor's. */
  #place = 0;
  #isPaused = false;
  /** Whether it received the end of the session. */
  #hasEnd = false;

  constructor(target: Target, watch: Watch) {
    this.#target = target;
    this.#watch = watch;
  }

  get floorId(): FloorId {
    return this.#target.floorId;
  }

  get sessionId(): SessionId | undefined {
    return this.#target.sessionId;
  }

  get standing(): string {
    return `${this.sessionId ?? this.floorId} stands at ${this.#place}`;
  }

  get isComplete(): boolean {
    const { sessionId } = this.#target;
    const last = this.#log.at(-1);
    const isAtHead = !last || this.#place >= this.#placeOf(last);
    return isAtHead && (sessionId === undefined || this.#watch.endOf(sessionId) === undefined);
  }

  open(gateway: GatewaySide, position: string | undefined, wire: Wire): Promise<Opening> {
    return gateway.open(this.#target, position, wire);
  }

  reconnect(): void {
    this.#texts.reconnect();
  }

  lacks(floorId: FloorId, entry: LogEntry): boolean {
    const { sessionId } = this.#target;
    const isMeant =
      sessionId === undefined ? this.floorId === floorId && isFloorEvent(entry.type) : sessionId === entry.sessionId;
    return isMeant && this.#place < this.#placeOf(entry);
  }

  /** The assembled text of an unfinished message. */
  textOf(messageId: string): string | undefined {
    return this.#texts.of(messageId);
  }

  end(answer: "over" | "unknown"): void {
    const { sessionId } = this.#target;
    must(answer !== "unknown" && sessionId !== undefined, () => `a reader was told that there is no ${sessionId}`);
    const last = this.#watch.logOf(sessionId).at(-1)?.seq;
    must(this.#hasEnd, () => `${this.standing} and was told that nothing more comes; its log ends with ${last}`);
  }

  takeLive(type: string, data: unknown): void {
    if (type === "delta") {
      must(!this.#isPaused, () => `${this.standing} and was given a piece of a paused session`);
      this.#texts.add(data as Delta);
    } else if (type === "message") this.#texts.show(data as Message);
    else must(false, () => `${this.standing} and was given ${type} ${JSON.stringify(data)}`);
  }

  takeLogged(id: string, data: string): void {
    const place = parseLogPosition(id)?.seq ?? 0;
    must(place > this.#place, () => `${this.standing} and was given position ${id} with ${data}`);
    const entry = this.#log.find((each) => this.#placeOf(each) === place);
    // Other changes to a session in the commit that deleted it were sent, but are not stored.
    must(
      entry ? this.#watch.textOf(entry) === data : this.#isGoneAt(place),
      () => `${this.standing} and was given ${data.slice(0, 300)}`,
    );
    for (const skipped of this.#log) {
      if (this.#placeOf(skipped) <= this.#place || this.#placeOf(skipped) >= place) continue;
      const { sessionId } = skipped;
      const isGone = sessionId !== undefined && this.#watch.endOf(sessionId) === "deleted";
      must(isGone, () => `${this.standing} and was given ${place}; it lacks ${this.#watch.textOf(skipped)}`);
    }
    this.#place = place;
    if (this.sessionId !== undefined) this.#follow(JSON.parse(data) as { type: string; data: object });
  }

  /** The expected events, in order. */
  get #log(): readonly LogEntry[] {
    const { sessionId, floorId } = this.#target;
    if (sessionId !== undefined) return this.#watch.logOf(sessionId);
    return this.#watch.floor(floorId).log.filter(({ type }) => isFloorEvent(type));
  }

  #placeOf({ seq, floorSeq }: LogEntry): number {
    return this.#target.sessionId === undefined ? floorSeq : seq!;
  }

  /** Whether this place was deleted with its session. */
  #isGoneAt(place: number): boolean {
    const { sessionId, floorId } = this.#target;
    if (sessionId !== undefined) return this.#watch.isGoneAt(sessionId, place);
    const { log, head } = this.#watch.floor(floorId);
    return place <= head && !log.some(({ floorSeq }) => floorSeq === place);
  }

  #follow({ type, data }: { type: string; data: object }): void {
    this.#texts.follow(type, data);
    if (type !== "session_transition") return;
    const { to } = data as { to: string };
    this.#isPaused = to === "paused";
    this.#hasEnd = to === "archived" || to === "deleted";
  }
}
