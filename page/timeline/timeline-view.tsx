import { useRef, useState } from "react";
import { timeOf } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { NoEvents } from "../moment/log-gaps.tsx";
import { clockOf } from "../moment/time-text.ts";
import { usePaintedTheme } from "../parts/screen/use-painted-theme.ts";
import { useWords } from "../words/words.tsx";
import { EventList } from "./event-list.tsx";
import { useInspector } from "./inspector.tsx";
import { LaneField } from "./lanes/lane-field.tsx";
import { laneIndex } from "./lanes/lanes.ts";
import { useLaneRoom } from "./lanes/use-lane-room.ts";
import { Overview } from "./overview.tsx";
import styles from "./timeline.module.css";
import { TimelineHead } from "./timeline-head.tsx";
import { type ShownAxis, useAxis } from "./use-axis.ts";
import { useKind } from "./use-kind.ts";
import { useZoom } from "./use-zoom.ts";

/** A lane for each session over the whole log; pressing on a lane chooses a moment. */
export function TimelineView() {
  const { log, count, floorId } = useHere();
  const { events } = log;
  const [index] = useState(laneIndex);
  const model = index.of(events);
  const shown = useAxis(model);
  const { axis, whole, span, chosen, setChosen } = shown;
  const { kind, setKind, lanes, indices } = useKind(model.lanes);
  const view = useRef<HTMLDivElement>(null);
  const { room, fitRoom } = useLaneRoom(view, lanes.length, kind);
  const theme = usePaintedTheme();
  const { inspector, opener, isBeside } = useInspector();
  const now = events[count - 1];
  const middle = now ? axis.pointOf(timeOf(now)) : span.to;
  const zoom = useZoom({ span, whole, middle, onZoom: setChosen });
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys that the buttons above the lanes have too.
    <div
      ref={view}
      className={styles["view"]}
      data-inspected={isBeside}
      onKeyDown={zoom.onKeyDown}
      onPointerLeave={fitRoom}
    >
      <TimelineHead
        shown={lanes.length}
        sessions={model.lanes.length}
        zoom={zoom}
        onWhole={chosen && (() => setChosen(undefined))}
        kind={kind}
        onKind={setKind}
      />
      {events.length === 0 && (
        <NoEvents className={styles["quiet"]} nothing={floorId ? "timeline.empty" : "timeline.nofloor"} />
      )}
      <AxisTimes shown={shown} />
      <Overview axis={axis} whole={whole} chosen={chosen} onChoose={setChosen} theme={theme} />
      <LaneField shown={shown} lanes={lanes} room={room} model={model} zoom={zoom} theme={theme} />
      <EventList kind={kind} onKind={setKind} shown={indices} opener={opener} />
      {inspector}
    </div>
  );
}

/** The times at the beginning, in the middle and at the end of the visible part. */
function AxisTimes({ shown: { axis, span } }: { shown: ShownAxis }) {
  const { language } = useWords();
  return (
    <div className={styles["axis"]} aria-hidden="true">
      {[span.from, (span.from + span.to) / 2, span.to].map((point) => (
        <span key={point}>{clockOf(axis.timeAt(point), language, true)}</span>
      ))}
    </div>
  );
}
