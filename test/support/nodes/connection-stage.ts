import type { ConnectionId } from "../../../src/protocol/ids.ts";
import { parseConnectionPosition } from "../../../src/protocol/position.ts";
import type { Store } from "../../../src/store/store.ts";
import { SessionReader } from "../clients/session-reader.ts";
import { Transcript } from "../clients/transcript.ts";
import { FloorFeed } from "../floors/floor-feed.ts";
import { UnreliableBus } from "../networks/unreliable-bus.ts";
import { VirtualClock } from "../runner/virtual-clock.ts";
import { MemoryStore } from "../stores/memory-store.ts";
import { withMethods } from "../stores/temporary-store.ts";
import { openGateway } from "./gateway-stage.ts";

/**
 * A gateway over a store, with connections to which clients bind sessions; `replace`: replacement methods of its store;
 * `store`: one that prunes, if the test needs it.
 */
export async function place(replace: (store: Store) => Partial<Store> = () => ({}), store: Store = new MemoryStore()) {
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  const stage = await openGateway({ store: withMethods(store, replace(store)), bus, clock });
  const { url } = stage;
  const feed = new FloorFeed(store, bus);

  /** A client's connection, and what the client knows of its sessions. */
  async function connect(query = "", starts: Record<string, number> = {}) {
    const reader = await SessionReader.at(stage, `/events${query}`, new Transcript(starts));
    return { reader, connectionId: await idOf(reader) };
  }

  /** Bind a session, from its current position; to the caller's open connection, if none is named. */
  async function load(
    connectionId: string | undefined,
    sessionId: string,
  ): Promise<{ status: number; errorCode?: string }> {
    const response = await fetch(`${url}/session/load`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ sessionId, connectionId }),
    });
    return { status: response.status, ...((await response.json()) as object) };
  }

  /** A client's connection to which these new sessions are bound. */
  async function bound(...ids: string[]) {
    for (const id of ids) await feed.create(id);
    const connected = await connect("", Object.fromEntries(ids.map((id) => [id, 1])));
    for (const id of ids) await load(connected.connectionId, id);
    return connected;
  }

  const rowOf = async (id: string) => (await store.loadConnection(id as ConnectionId))!;
  return { ...stage, store, bus, clock, feed, connect, load, bound, rowOf };
}

/** The id of a connection, once its stream has sent it. */
export const idOf = async (reader: SessionReader) => (await reader.stream.next("connected")).data.connectionId;
/** Whether a transcript has each session's events up to this one. */
export const has = (seqs: Record<string, number>) => (transcript: Transcript) =>
  Object.entries(seqs).every(([id, seq]) => transcript.seqOf(id) === seq);
/** Replaces a store's `heads`: after `hold`, it waits until the test lets it go on. */
export function heldHeads() {
  let held: { asked: PromiseWithResolvers<void>; goOn: PromiseWithResolvers<void> } | undefined;
  const replace = (own: Store): Partial<Store> => ({
    heads: async (ids) => {
      held?.asked.resolve();
      await held?.goOn.promise;
      return await own.heads(ids);
    },
  });
  const hold = () => {
    held = { asked: Promise.withResolvers(), goOn: Promise.withResolvers() };
    return { asked: held.asked.promise, goOn: held.goOn.resolve };
  };
  return { replace, hold };
}

/** The sessions in a position. */
export const slotsOf = (position: string | undefined) => parseConnectionPosition(position ?? "")?.slots;
