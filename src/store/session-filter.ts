import type { StoredSessionQuery } from "./store.ts";

/**
 * SQL of every store: the columns of sessions that a list compares, with their values, as far as the query names them.
 */
export function filteredColumns(query: StoredSessionQuery): [column: string, value: string][] {
  const columns = {
    state: query.state,
    agent_id: query.agentId,
    user_id: query.userId,
    owner_id: query.ownerId,
    workspace_id: query.workspaceId,
  };
  return Object.entries(columns).filter((entry): entry is [string, string] => entry[1] !== undefined);
}

/** Whether a list leaves out archived sessions. */
export const hidesArchived = ({ state, includeArchived }: StoredSessionQuery): boolean =>
  state === undefined && !includeArchived;
