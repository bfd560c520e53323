import { useEffect, useMemo, useState } from "react";
import type { FloorsLiveView } from "../../src/client/live/live-floors.ts";
import type { FloorSummary } from "../../src/protocol/floor.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient, useFloors } from "../../src/react/hooks.ts";
import { usePaced } from "../parts/use-paced.ts";

/** Sessions that are read, newest activity first. Their floors are listed, idle ones too. */
const SESSIONS = 200;
/** The shortest interval between two reads while floors change, in ms. */
const READ_MS = 2_000;

interface RecentFloor extends Pick<FloorSummary, "floorId" | "state" | "holder" | "paused" | "queued"> {
  /**
   * When one of its sessions was last active, in ms since 1970. Absent if that was before the sessions that are read.
   */
  activeAt?: number;
}

/**
 * Floors by their last activity, newest first; those of unknown activity come last, by id.
 * @param floors those that the stream named. Every other floor is idle
 * @param sessions the newest ones
 */
function byActivity(floors: readonly FloorSummary[], sessions: readonly Session[]): RecentFloor[] {
  const listed = new Map(floors.map((floor): [string, RecentFloor] => [floor.floorId, floor]));
  for (const { floorId, lastActivityAt } of sessions) {
    const floor = listed.get(floorId) ?? { floorId, state: "idle", paused: 0, queued: 0 };
    listed.set(floorId, { ...floor, activeAt: Math.max(lastActivityAt, floor.activeAt ?? 0) });
  }
  return [...listed.values()].sort(
    (one, other) => (other.activeAt ?? 0) - (one.activeAt ?? 0) || (one.floorId < other.floorId ? -1 : 1),
  );
}

/** The floors that the user may see: those in use, live, and those of the sessions that were active last. */
export function useRecentFloors(): Pick<FloorsLiveView, "status" | "failure"> & {
  /** Undefined until both are read. */
  floors: readonly RecentFloor[] | undefined;
} {
  const client = useClient();
  const { floors, status, failure } = useFloors();
  const paced = usePaced(floors, READ_MS);
  const [sessions, setSessions] = useState<readonly Session[]>();
  const [unread, setUnread] = useState<FloorsLiveView["failure"]>();
  const isOpen = status === "open";
  // biome-ignore lint/correctness/useExhaustiveDependencies: a floor that changed was active.
  useEffect(() => {
    if (!isOpen) return;
    client.listSessions({ pageSize: SESSIONS, includeArchived: true }).then((answer) => {
      setSessions(answer.sessions);
      setUnread(undefined);
    }, setUnread);
  }, [client, isOpen, paced]);
  const known = isOpen || floors.length > 0;
  const listed = useMemo(
    () => (known && (sessions || unread) ? byActivity(floors, sessions ?? []) : undefined),
    [known, floors, sessions, unread],
  );
  return { floors: listed, status, failure: status === "refused" ? failure : isOpen ? unread : undefined };
}
