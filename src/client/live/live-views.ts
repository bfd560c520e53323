import type { Client } from "../client.ts";
import type { Live, LiveState } from "./live.ts";
import { LiveConnection } from "./live-connection.ts";
import { LiveFloor } from "./live-floor.ts";
import { LiveFloors } from "./live-floors.ts";
import { LiveSession } from "./live-session.ts";

/** Unwatched views that are remembered, so that a page shows the known state at once when the user returns. */
const MAX_KEPT = 64;

/** The live views of one client. Equal requests share a view, and thereby a stream. */
export class LiveViews {
  readonly client: Client;
  readonly connection: LiveConnection;
  readonly floors: LiveFloors;
  /** Least recently requested first. */
  readonly #views = new Map<string, Live<LiveState>>();

  constructor(client: Client) {
    this.client = client;
    this.connection = new LiveConnection(client);
    this.floors = new LiveFloors(client);
  }

  session(id: string): LiveSession {
    return this.#view(`session ${id}`, () => new LiveSession(this.client, id)) as unknown as LiveSession;
  }

  /** The same for a participant, which renews the session's lease. */
  participant(id: string): LiveSession {
    const open = () => new LiveSession(this.client, id, { isParticipant: true });
    return this.#view(`participant ${id}`, open) as unknown as LiveSession;
  }

  floor(id: string): LiveFloor {
    return this.#view(`floor ${id}`, () => new LiveFloor(this.client, id)) as unknown as LiveFloor;
  }

  /**
   * Close all streams and keep the known state, for a hidden page. Participants keep their streams, because they
   * continue to play.
   */
  suspend(): void {
    for (const view of this.#all()) {
      if (!(view instanceof LiveSession && view.isParticipant)) view.suspend();
    }
  }

  /** Open the watched streams again, each after its position. */
  restart(): void {
    for (const view of this.#all()) view.restart();
  }

  *#all(): Iterable<Live<LiveState>> {
    yield this.connection as unknown as Live<LiveState>;
    yield this.floors as unknown as Live<LiveState>;
    yield* this.#views.values();
  }

  #view(key: string, open: () => unknown): Live<LiveState> {
    const view = this.#views.get(key) ?? (open() as Live<LiveState>);
    this.#views.delete(key);
    this.#views.set(key, view);
    for (const [other, { isWatched }] of this.#views) {
      if (this.#views.size <= MAX_KEPT) break;
      if (!isWatched && other !== key) this.#views.delete(other);
    }
    return view;
  }
}
