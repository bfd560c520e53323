import { useMemo, useState } from "react";
import type { Session } from "../../src/protocol/session.ts";
import { type Here, useHere } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";
import type { Chart } from "./chart.ts";
import { ChartFigure } from "./chart-figure.tsx";
import { arrowOf, type ShownTransition, statesOf, transitionIndex, transitionsOf } from "./machine-state.ts";

export interface ChartsProps {
  machine: Chart;
  session: Session | undefined;
  transitions: readonly ShownTransition[];
  /** As of `ChartFigure`. */
  fitting?: number;
}

/** The regions of a session's machine, with the current states highlighted and the latest arrow marked. */
export function SessionCharts({ machine, session, transitions, fitting }: ChartsProps) {
  const { say } = useWords();
  const states = session && statesOf(session);
  return machine.regions.map((region) => {
    const last = transitions.findLast(({ data }) => arrowOf(region, data) !== undefined);
    const isNewest = last !== undefined && last === transitions.at(-1);
    const arrow = last && arrowOf(region, last.data);
    const isDucked = region.name === "lifecycle" && session?.state === "ducked" && session.level !== undefined;
    return (
      <ChartFigure
        key={region.name}
        title={say(region.name === "lifecycle" ? "machine.lifecycle" : "machine.activity")}
        region={region}
        state={states?.[region.name]}
        note={isDucked ? `${session.level} dB` : undefined}
        fitting={fitting}
        traversed={isNewest && arrow !== undefined ? { arrow, key: chartKeyOf(last) } : undefined}
      />
    );
  });
}

/** The unique key of a transition. */
export const chartKeyOf = ({ sessionId, seq }: ShownTransition): string => `${sessionId} ${seq}`;

/** The newest transitions of a session up to the shown moment, the newest last. */
export function useTransitions(id: string | undefined): ShownTransition[] {
  const { log, count, isLive, recent } = useHere();
  const { events, revision } = log;
  const ahead = isLive ? recent : NOTHING;
  const [index] = useState(transitionIndex);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  return useMemo(
    () => (id === undefined ? [] : transitionsOf(id, events, index.of(events).get(id) ?? [], count, ahead)),
    [id, index, events, count, revision, ahead],
  );
}

const NOTHING: Here["recent"] = [];
