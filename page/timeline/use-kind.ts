import { useMemo, useState } from "react";
import type { Lane } from "../../src/client/lanes.ts";
import { useHere } from "../moment/here.tsx";
import { eventsInFlight, flightIndex, sessionsInFlight } from "./flights.ts";
import { type Kind, kindIndex, kindOf } from "./kinds.ts";

interface ShownKind {
  kind: Kind;
  setKind: (kind: Kind) => void;
  /** The lanes of the sessions with such events. */
  lanes: readonly Lane[];
  /** The indices of these events in the log. */
  indices: readonly number[];
}

/** The filter in the address, and the sessions of its events. */
export function useKind(all: readonly Lane[]): ShownKind {
  const { log, count, only, setFilter } = useHere();
  const { events, revision } = log;
  const [kinds] = useState(kindIndex);
  const [flights] = useState(flightIndex);
  const kind = kindOf(only);
  const moment = kind === "inflight" ? count : undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: all of these grow in place; the revision says so.
  const shown = useMemo(() => {
    if (kind !== "inflight") {
      const { indices, sessions } = kinds.of(events)[kind];
      return { indices, lanes: kind === "all" ? all : all.filter(({ sessionId }) => sessions.has(sessionId)) };
    }
    const known = flights.of(events);
    const sessions = sessionsInFlight(known, moment!);
    return {
      indices: eventsInFlight(known, moment!),
      lanes: all.filter(({ sessionId }) => sessions.has(sessionId)),
    };
  }, [kind, kinds, flights, events, revision, all, moment]);
  return { ...shown, kind, setKind: (next) => setFilter({ only: next === "all" ? undefined : next }) };
}
