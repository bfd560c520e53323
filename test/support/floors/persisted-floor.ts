import type { FloorActors, SavedFloor } from "../../../src/actors/host/floor-actors.ts";
import type { SessionMachineState } from "../../../src/actors/host/session-actor.ts";
import { readSession, readSnapshot, SNAPSHOT_FORMAT, writeSnapshot } from "../../../src/actors/host/snapshot.ts";

/** The floor as XState's `getPersistedSnapshot` writes it, with its sessions inside. */
export function persistWhole(actors: FloorActors): string {
  const sessions = [...actors.neededIds()].map((id) => `"${id}":${persistSession(actors.machineState(id)!)}`);
  return `${actors.persist().slice(0, -1)},"children":{${sessions.join()}}}`;
}

/** The session as a child of the arbiter. */
export function persistSession({ value, context }: SessionMachineState): string {
  const inner = { status: "active", value, historyValue: {}, context, children: {} };
  return JSON.stringify({ snapshot: inner, src: "session", syncSnapshot: false });
}

/** What a host restores from the floor's row and its sessions' rows. */
export function throughRows(actors: FloorActors): SavedFloor {
  const snapshot = writeSnapshot(actors.persist(), actors.neededIds(), 0);
  const sessions = [...actors.neededIds()].map((id) => {
    const { view: session, memory } = actors.machineState(id)!;
    return readSession({ session: JSON.parse(JSON.stringify(session)), memory, head: 0 });
  });
  const { arbiter } = readSnapshot({ version: 1, head: 0, format: SNAPSHOT_FORMAT, snapshot });
  return { arbiter, sessions };
}
