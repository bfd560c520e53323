import { useEffect, useRef, useState } from "react";
import type { Lane, Lanes } from "../../../src/client/lanes.ts";
import { countLeading } from "../../log/count-leading.ts";
import { floorSeqOf, timeOf } from "../../log/log-event.ts";
import { useHere } from "../../moment/here.tsx";
import { useViewport } from "../../parts/screen/use-viewport.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../timeline.module.css";
import type { ShownAxis } from "../use-axis.ts";
import { useZoomWheel, type Zoom } from "../use-zoom.ts";
import { GapMarks } from "./gap-marks.tsx";
import { LaneName } from "./lane-name.tsx";
import { LANE_PX, paintLanes } from "./paint-lanes.ts";
import { useLaneFingers } from "./use-lane-fingers.ts";

/** Lanes above and below the visible ones. */
const SPARE = 4;
const BORDERS_PX = 2;

interface Props {
  shown: ShownAxis;
  lanes: readonly Lane[];
  /** The number of lanes that are visible without scrolling, if the view is high enough. */
  room: number;
  model: Pick<Lanes, "marks" | "marksOf">;
  zoom: Zoom;
  /** Changes when the colours change. */
  theme: string;
}

/** The lanes with their names, of which the visible ones are painted. A press chooses a moment. */
export function LaneField({ shown, lanes, room, model: { marks, marksOf }, zoom, theme }: Props) {
  const { say } = useWords();
  const { log, linkTo, agentName } = useHere();
  const { axis, whole, span, setChosen } = shown;
  const end = axis.timeAt(whole.to);
  const box = useRef<HTMLElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [seen, setSeen] = useState({ first: 0, rows: 30, width: 0 });
  useViewport(box, (element) =>
    setSeen({
      first: Math.max(0, Math.floor(element.scrollTop / LANE_PX) - SPARE),
      rows: Math.ceil(element.clientHeight / LANE_PX) + 2 * SPARE,
      width: element.clientWidth,
    }),
  );
  const rows = Math.max(0, Math.min(seen.rows, lanes.length - seen.first));
  const { revision } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the width, the theme and the log change what is painted.
  useEffect(() => {
    paintLanes({ canvas: canvas.current!, lanes, marks: marksOf, axis, span, first: seen.first, count: rows, end });
  }, [lanes, marksOf, revision, axis, span, seen, rows, end, theme]);
  useZoomWheel(box, zoom);
  const choose = useChoose();
  const fingers = useLaneFingers({ span, whole, onPress: (point) => choose(axis.timeAt(point)), onZoom: setChosen });
  return (
    <section
      ref={box}
      className={styles["lanes"]}
      style={{ maxHeight: room * LANE_PX + BORDERS_PX }}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
      tabIndex={0}
      aria-label={say("timeline.lanes")}
    >
      <div className={styles["all"]} style={{ height: lanes.length * LANE_PX }}>
        <ul className={styles["names"]}>
          {lanes.slice(seen.first, seen.first + rows).map(({ sessionId, title, agentId }, index) => (
            <LaneName
              key={sessionId}
              agent={agentName(agentId)}
              title={title}
              href={linkTo("session", { sessionId })}
              style={{ transform: `translateY(${(seen.first + index) * LANE_PX}px)` }}
            />
          ))}
        </ul>
        <div className={styles["field"]} {...fingers}>
          <canvas
            ref={canvas}
            role="img"
            aria-label={say("timeline.picture", { sessions: lanes.length, decisions: marks.length })}
            style={{ height: rows * LANE_PX, transform: `translateY(${seen.first * LANE_PX}px)` }}
          />
          <Overlay shown={shown} />
        </div>
      </div>
    </section>
  );
}

/** Chooses the last event that is not after a time. */
function useChoose(): (time: number) => void {
  const { log, lookAt } = useHere();
  const { events } = log;
  return (time) => {
    const past = countLeading(events.length, (index) => timeOf(events[index]!) <= time);
    const event = events[Math.max(0, past - 1)];
    if (event) lookAt(floorSeqOf(event));
  };
}

/** The lengths of folded gaps and the chosen moment, above the painted lanes. */
function Overlay({ shown: { axis, gaps, span } }: { shown: ShownAxis }) {
  const { log, count, at, isFile } = useHere();
  const part = (point: number) => `${((point - span.from) / (span.to - span.from)) * 100}%`;
  const now = log.events[count - 1];
  return (
    <>
      <GapMarks gaps={gaps} span={span} />
      {now && (at !== undefined || isFile) && (
        <span className={styles["cursor"]} style={{ left: part(axis.pointOf(timeOf(now))) }} />
      )}
    </>
  );
}
