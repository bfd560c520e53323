import type { Catalog } from "../../src/config/catalog.ts";
import { envelopeJson, type LogEntry } from "../../src/protocol/event.ts";
import type { FloorId, SessionId } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { FloorChange } from "../../src/store/store.ts";
import { FloorWatch } from "./floor-watch.ts";
import { must } from "./must.ts";

/** All that was ever committed, checked as it is committed, and remembered for whoever is to be measured by it. */
export class Watch {
  readonly #catalog: Catalog;
  readonly #floors = new Map<FloorId, FloorWatch>();
  readonly #sessions = new Map<SessionId, LogEntry[]>();
  readonly #texts = new WeakMap<LogEntry, string>();
  /** Sessions whose log has ended, and whether they are gone. */
  readonly #over = new Map<SessionId, "archived" | "deleted">();
  readonly #effectIds = new Set<string>();
  readonly #marks = new Map<string, number>();
  /** Told of each event once it is committed. */
  onEvent: (floorId: FloorId, entry: LogEntry) => void = () => {};

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  floor(id: FloorId): FloorWatch {
    const floor = this.#floors.get(id) ?? new FloorWatch(id, this.#catalog);
    this.#floors.set(id, floor);
    return floor;
  }

  get floors(): Iterable<FloorWatch> {
    return this.#floors.values();
  }

  /** Events of a session that were ever readable, in order. */
  logOf(id: SessionId): readonly LogEntry[] {
    return this.#sessions.get(id) ?? [];
  }

  /** What stands behind `data:` when a reader is given the event. */
  textOf(entry: LogEntry): string {
    let text = this.#texts.get(entry);
    if (text === undefined) {
      text = envelopeJson(entry);
      this.#texts.set(entry, text);
    }
    return text;
  }

  endOf(id: SessionId): "archived" | "deleted" | undefined {
    return this.#over.get(id);
  }

  /** Whether nothing is kept of an event because it went with its session. */
  isGoneAt(id: SessionId, seq: number): boolean {
    return this.endOf(id) === "deleted" && seq < this.logOf(id).at(-1)!.seq!;
  }

  /** How often something was done that is to be done once. */
  countOf(mark: string): number {
    return this.#marks.get(mark) ?? 0;
  }

  /** A change was committed. */
  take(change: FloorChange, at: number): void {
    for (const { id } of change.effectsAdded) {
      must(!this.#effectIds.has(id), () => `effect id ${id} was used a second time`);
      this.#effectIds.add(id);
    }
    this.floor(change.floorId).take(change, at);
    for (const entry of change.events) this.#note(change.floorId, entry);
    for (const { sessionId, last } of change.deleted) {
      this.#note(change.floorId, last);
      this.#over.set(sessionId, "deleted");
    }
  }

  #note(floorId: FloorId, entry: LogEntry): void {
    const { sessionId } = entry;
    if (sessionId !== undefined) {
      const log = this.#sessions.get(sessionId) ?? [];
      this.#sessions.set(sessionId, log);
      log.push(entry);
    }
    this.#mark(entry);
    this.onEvent(floorId, entry);
  }

  #mark({ type, sessionId, json }: LogEntry): void {
    if (type === "session_created") this.#count(`created ${sessionId}`);
    else if (type === "floor_updated") this.#count(`flags ${json}`);
    else if (type === "session_updated") {
      const { title } = JSON.parse(json) as { title?: string };
      if (title !== undefined) this.#count(`title ${title}`);
    } else if (type === "message") {
      const { id, role } = JSON.parse(json) as Message;
      if (role === "user") this.#count(`message ${id}`);
    } else if (type === "session_transition" && json.includes('"to":"archived"')) {
      this.#over.set(sessionId!, "archived");
    }
  }

  #count(mark: string): void {
    this.#marks.set(mark, this.countOf(mark) + 1);
  }
}
