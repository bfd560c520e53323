import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { must } from "../../../src/policy/arrangement-check.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import { envelopeJson } from "../../../src/protocol/frames.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import type { FloorChange } from "../../../src/store/store.ts";
import { FloorWatch, LATE_MS } from "./floor-watch.ts";

interface FloorUpdate {
  flags: Record<string, boolean>;
  reserved?: object;
}

/** The largest delay of a run request, in ms: the times in the catalogue are shorter. */
const LONGEST_MS = 60_000;

/** Checks every change when it is committed, and records it as the reference for readers and clients. */
export class Watch {
  readonly #catalog: Catalog;
  readonly #floors = new Map<FloorId, FloorWatch>();
  readonly #sessions = new Map<SessionId, LogEntry[]>();
  readonly #texts = new WeakMap<LogEntry, string>();
  /** Sessions whose log has ended, and whether they were deleted. */
  readonly #over = new Map<SessionId, "archived" | "deleted">();
  /** The due time of each run request that was ever pending. */
  readonly #runRequests = new Map<string, number>();
  readonly #marks = new Map<string, number>();
  /** Each floor's last logged flags and reservation. */
  readonly #updates = new Map<FloorId, { flags: string; reserved: string | undefined }>();
  /** Called with each event once it is committed. */
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

  /** All events of a session that were ever readable, in order. */
  logOf(id: SessionId): readonly LogEntry[] {
    return this.#sessions.get(id) ?? [];
  }

  /** The content of `data:` when a reader gets the event. */
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

  /** Whether an event was deleted with its session. */
  isGoneAt(id: SessionId, seq: number): boolean {
    return this.endOf(id) === "deleted" && seq < this.logOf(id).at(-1)!.seq!;
  }

  /** How often each action was done that must happen once. */
  countOf(mark: string): number {
    return this.#marks.get(mark) ?? 0;
  }

  /** A change was committed. */
  take(change: FloorChange, at: number): void {
    for (const { id, dueAt } of change.runRequestsAdded) {
      must(!this.#runRequests.has(id), () => `run request id ${id} was used a second time`);
      const inMs = dueAt - at;
      must(inMs > -LATE_MS && inMs < LONGEST_MS, () => `run request ${id} is due in ${inMs} ms`);
      this.#runRequests.set(id, dueAt);
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
    this.#mark(floorId, entry);
    this.onEvent(floorId, entry);
  }

  #mark(floorId: FloorId, { type, sessionId, json }: LogEntry): void {
    if (type === "session_created") this.#count(`created ${sessionId}`);
    else if (type === "floor_updated") this.#markFlags(floorId, JSON.parse(json) as FloorUpdate);
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

  /** The event of a reservation contains the flags; only a command changes flags. */
  #markFlags(floorId: FloorId, { flags, reserved }: FloorUpdate): void {
    const now = { flags: JSON.stringify({ flags }), reserved: JSON.stringify(reserved) };
    const before = this.#updates.get(floorId);
    this.#updates.set(floorId, now);
    const had = before ? Object.keys((JSON.parse(before.flags) as FloorUpdate).flags) : [];
    const names = Object.keys(flags);
    // Flags are replaced by a set of one, and changed individually: changing one never removes another.
    const lost = had.filter((name) => !names.includes(name));
    must(lost.length === 0 || (names.length === 1 && names[0]!.startsWith("flag-")), () => `${floorId} lost ${lost}`);
    for (const name of names) if (name.startsWith("patch-") && !had.includes(name)) this.#count(`patched ${name}`);
    if (now.flags !== before?.flags || now.reserved === before.reserved) this.#count(`flags ${now.flags}`);
  }

  #count(mark: string): void {
    this.#marks.set(mark, this.countOf(mark) + 1);
  }
}
