import { useEffect, useMemo, useRef, useState } from "react";
import type { AgentView } from "../../src/client/answers.ts";
import type { Client } from "../../src/client/client.ts";
import type { Session } from "../../src/protocol/session.ts";
import type { FloorPicture } from "../log/floor-picture.ts";
import type { Opening } from "./opening.ts";

interface Looked {
  floor: Pick<FloorPicture, "holder" | "ducked" | "paused" | "queued"> | undefined;
  floorId: string | undefined;
  sessionId: string | undefined;
  isLive: boolean;
}

/**
 * The workspace of the chosen session; without one, of the first session on the floor. A session that is not on the
 * floor is read once, because its log may be long.
 */
export function useWorkspace(client: Client, { floor, floorId, sessionId, isLive }: Looked): string | undefined {
  const [read, setRead] = useState<Pick<Session, "id" | "workspaceId">>();
  const present = floor ? [floor.holder ?? [], floor.ducked, floor.paused, floor.queued].flat() : [];
  const shown = present.find(({ id }) => id === sessionId) ?? (read?.id === sessionId ? read : undefined);
  const isMissing = isLive && floor !== undefined && sessionId !== undefined && shown === undefined;
  useEffect(() => {
    if (!isMissing) return;
    const leaving = new AbortController();
    client.getSession(sessionId, { signal: leaving.signal }).then(
      ({ session }) => setRead(session),
      // The session's view shows the error.
      () => undefined,
    );
    return () => leaving.abort();
  }, [client, sessionId, isMissing]);
  const first = present.find((session) => session.workspaceId !== undefined);
  const workspaceId = (sessionId === undefined ? first : shown)?.workspaceId;
  // Past moments use the workspace that was found first, so that the catalogue is not read for each of them.
  const key = `${floorId} ${sessionId}`;
  const [kept, setKept] = useState({ key, workspaceId });
  const isKept = kept.key === key && (kept.workspaceId === workspaceId || (!isLive && kept.workspaceId !== undefined));
  if (isKept) return kept.workspaceId;
  setKept({ key, workspaceId });
  return workspaceId;
}

interface Reader {
  client: Client;
  /** Whether the stream of the view is open. */
  isOpen: boolean;
  workspaceId: string | undefined;
}

/** The catalogue with the agents of a workspace, read at once, and again after a lost connection. */
export function useAgents(
  opening: Opening,
  { client, isOpen, workspaceId }: Reader,
): { agents: readonly AgentView[]; agentName: (id: string) => string } {
  const [agents, setAgents] = useState<readonly AgentView[]>([]);
  const [readings, setReadings] = useState(0);
  // Whether the answer is missing, or from before a lost connection. A stream that opens for the first time does not
  // repeat the request that is under way.
  const isOld = useRef(false);
  useEffect(() => {
    if (!isOpen) return;
    if (isOld.current) setReadings((count) => count + 1);
    return () => {
      isOld.current = true;
    };
  }, [isOpen]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each reading reads anew.
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    isOld.current = false;
    const early = workspaceId === undefined ? opening.receiveAgents() : undefined;
    (early ?? client.listAgents({ signal, workspaceId })).then(
      (answer) => {
        if (!signal.aborted) setAgents(answer.agents);
      },
      // The connection's line shows the error; the known names are kept.
      () => {
        if (!signal.aborted) isOld.current = true;
      },
    );
    return () => leaving.abort();
  }, [client, opening, workspaceId, readings]);
  return useMemo(() => {
    const names = new Map<string, string>(agents.map(({ id, name }) => [id, name]));
    return { agents, agentName: (id: string) => names.get(id) ?? (id || "?") };
  }, [agents]);
}
