import type { FloorActors } from "../../../src/actors/host/floor-actors.ts";
import type { SessionMachineState } from "../../../src/actors/host/session-machine-state.ts";
import { readSnapshot, SNAPSHOT_FORMAT, withSessions, writeSnapshot } from "../../../src/actors/host/snapshot.ts";

/** The floor as XState's `getPersistedSnapshot` writes it, with its sessions inside: the storage of formats 1 and 2. */
export function persistWhole(actors: FloorActors): string {
  const sessions = [...actors.neededIds()].map((id) => `"${id}":${persistSession(actors.machineState(id)!)}`);
  return `${actors.persist().slice(0, -1)},"children":{${sessions.join()}}}`;
}

/** The session as a child of the arbiter. */
export function persistSession({ value, context }: SessionMachineState): string {
  const inner = { status: "active", value, historyValue: {}, context, children: {} };
  return JSON.stringify({ snapshot: inner, src: "session", syncSnapshot: false });
}

/** The snapshot that a host restores from the floor's row and its sessions' rows. */
export function throughRows(actors: FloorActors): Record<string, unknown> {
  const snapshot = writeSnapshot(actors.persist(), actors.neededIds(), 0);
  const rows = [...actors.neededIds()].map((id) => {
    const { view: session, memory } = actors.machineState(id)!;
    return { session: JSON.parse(JSON.stringify(session)), memory, head: 0 };
  });
  return withSessions(readSnapshot({ version: 1, head: 0, format: SNAPSHOT_FORMAT, snapshot }), rows);
}
