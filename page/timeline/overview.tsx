import { useState } from "react";
import { isBadEvent } from "../log/log-density.ts";
import { type LogEvent, timeOf } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";
import { useHere } from "../moment/here.tsx";
import { colourReader } from "../parts/colours.ts";
import { blankPen, useCanvas } from "../parts/use-canvas.ts";
import { useWords } from "../words/words.tsx";
import type { Axis } from "./folding.ts";
import type { LaneSpan } from "./lanes/lanes.ts";
import styles from "./timeline.module.css";
import { type Fingers, useFingers } from "./use-fingers.ts";

/** A press that moves by less than this is not a drag, in px. */
const DRAG_PX = 4;

interface Props {
  axis: Axis;
  /** On the axis. */
  whole: LaneSpan;
  /** The part that the lanes show; undefined: all of it. On the axis. */
  chosen: LaneSpan | undefined;
  onChoose: (span: LaneSpan) => void;
  /** Changes when the colours change. */
  theme: string;
}

/**
 * The whole log in one strip: the number of events over time. A drag, or two fingers, choose the part that the lanes
 * show.
 */
export function Overview({ axis, whole, chosen, onChoose, theme }: Props) {
  const { say } = useWords();
  const { log } = useHere();
  const { events, revision } = log;
  const [index] = useState(timesIndex);
  const draw = (element: HTMLCanvasElement) => paint(element, index.of(events), axis, whole);
  const canvas = useCanvas(draw, [index, events, revision, axis, whole, theme]);
  const length = whole.to - whole.from;
  const choose = ({ at, began, width }: Fingers) => {
    // The part between the start and the present point of one pointer, or between two pointers.
    const ends = at.length === 1 ? [...began, ...at] : at;
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    if (last - first < DRAG_PX) return;
    const pointAt = (x: number) => whole.from + Math.min(1, Math.max(0, x / width)) * length;
    onChoose({ from: pointAt(first), to: pointAt(last) });
  };
  const fingers = useFingers({ onDown: choose, onMove: choose });
  return (
    <div
      className={styles["overview"]}
      role="img"
      aria-label={say("timeline.overview")}
      title={say("timeline.overview")}
      {...fingers}
    >
      <canvas ref={canvas} />
      {chosen && (
        <span
          className={styles["chosen"]}
          style={{
            left: `${((chosen.from - whole.from) / length) * 100}%`,
            width: `${((chosen.to - chosen.from) / length) * 100}%`,
          }}
        />
      )}
    </div>
  );
}

/** The time of each event, and whether it was a refusal or a failure. */
interface Times {
  at: number[];
  isBad: boolean[];
}

const timesIndex = () =>
  new LogIndex<Times>(
    () => ({ at: [], isBad: [] }),
    ({ at, isBad }, event: LogEvent) => {
      at.push(timeOf(event));
      isBad.push(isBadEvent(event));
    },
  );

function paint(canvas: HTMLCanvasElement, { at, isBad }: Times, axis: Axis, whole: LaneSpan): void {
  const pen = blankPen(canvas);
  if (!pen) return;
  const { width, height } = canvas;
  const colour = colourReader(canvas);
  const counts = new Uint32Array(width);
  const bad = new Uint8Array(width);
  for (let index = 0; index < at.length; index += 1) {
    const part = (axis.pointOf(at[index]!) - whole.from) / (whole.to - whole.from);
    const x = Math.min(width - 1, Math.max(0, Math.floor(part * width)));
    counts[x]! += 1;
    if (isBad[index]) bad[x] = 1;
  }
  const most = counts.reduce((one, other) => Math.max(one, other), 1);
  for (const [x, count] of counts.entries()) {
    if (count === 0) continue;
    // By the square root, so that a single event is visible beside a thousand.
    const tall = Math.max(2, Math.sqrt(count / most) * height);
    pen.fillStyle = colour(bad[x] ? "s-failed" : "s-created");
    pen.fillRect(x, height - tall, bad[x] ? 2 : 1, tall);
  }
}
