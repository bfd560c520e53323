import { useLayoutEffect, useRef, useState } from "react";
import { densityIndex, heightsOf, type Density as LogDensity } from "../log/log-density.ts";
import { countUpTo, floorSeqOf, type LogEvent } from "../log/log-event.ts";
import { colourReader } from "../parts/colours.ts";
import { usePaintedTheme } from "../parts/screen/use-painted-theme.ts";
import { blankPen, useCanvas } from "../parts/use-canvas.ts";
import { useWords } from "../words/words.tsx";
import { useHere } from "./here.tsx";
import { LogFileButtons } from "./log-file-buttons.tsx";
import styles from "./moment-bar.module.css";
import { useMomentText } from "./moment-text.ts";

/** The moment that all views show: now, or any earlier one. */
export function MomentBar() {
  const { say, number } = useWords();
  const { log, count, at, awaited, isFile, lookAt } = useHere();
  const { events } = log;
  const slider = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    // The handle stays where it was dragged to, also while that moment is not shown yet.
    const isShown = awaited.moment === undefined || awaited.moment.at === at;
    if (slider.current && isShown) slider.current.value = String(count);
  }, [awaited, at, count]);
  const newer = useNewer();
  const text = useMomentText(at === undefined && !isFile ? undefined : events[count - 1]);
  if (events.length === 0) return undefined;
  const isNow = at === undefined;
  return (
    <section className={styles["bar"]} aria-label={say("moment.title")}>
      <button
        type="button"
        className={styles["now"]}
        aria-pressed={isNow}
        // Stops the live view at the current moment, as Space does.
        onClick={() => {
          const { at: chosen } = awaited.moment ?? { at };
          lookAt(chosen === undefined && !isFile ? floorSeqOf(events.at(-1)!) : undefined);
        }}
      >
        {say(isFile ? "moment.end" : "moment.live")}
      </button>
      <div className={styles["strip"]}>
        <Density events={events} revision={log.revision} />
        <input
          ref={slider}
          type="range"
          min={0}
          max={events.length}
          defaultValue={count}
          aria-label={say("moment.scrub")}
          aria-valuetext={text}
          onChange={({ target }) => {
            const event = events[Number(target.value) - 1];
            lookAt(event === undefined ? Math.max(0, floorSeqOf(events[0]!) - 1) : floorSeqOf(event));
          }}
        />
      </div>
      <output className={styles["text"]} data-past={!isNow}>
        {text}
        <small>
          {say("moment.count", { count: number.format(count), all: number.format(events.length) })}
          {newer > 0 ? ` · ${say("moment.newer", { count: number.format(newer) })}` : ""}
          {log.isReading ? " …" : ""}
        </small>
      </output>
      <LogFileButtons />
    </section>
  );
}

/** The number of events since the live view was stopped. */
function useNewer(): number {
  const { log, at, isFile } = useHere();
  const [pinned, setPinned] = useState<number>();
  const last = log.events.at(-1);
  const isPinned = at !== undefined && !isFile;
  // Set during rendering: an effect would first show the count of the previous stop.
  if (isPinned && pinned === undefined && last) setPinned(floorSeqOf(last));
  if (!isPinned && pinned !== undefined) setPinned(undefined);
  return isPinned && pinned !== undefined ? log.events.length - countUpTo(log.events, pinned) : 0;
}

/** Each event of the log, as high as events are dense in time there, with refusals and failures as ticks. */
function Density({ events, revision }: { events: readonly LogEvent[]; revision: number }) {
  const [index] = useState(densityIndex);
  const theme = usePaintedTheme();
  // `events` grows in place; the revision says so.
  const draw = (element: HTMLCanvasElement) => drawDensity(element, index.of(events), events.length);
  const canvas = useCanvas(draw, [index, events, revision, theme]);
  return <canvas ref={canvas} />;
}

function drawDensity(canvas: HTMLCanvasElement, density: LogDensity, count: number): void {
  const pen = blankPen(canvas);
  if (!pen || count === 0) return;
  const { width, height } = canvas;
  const colour = colourReader(canvas);
  const { size, stretches } = density;
  const heights = heightsOf(density);
  const xOfStretch = (index: number) => Math.min(width - 1, Math.floor((index * size * width) / count));
  pen.fillStyle = colour("s-created");
  const tall = new Float64Array(width);
  for (const [index, share] of heights.entries()) {
    const from = xOfStretch(index);
    const to = index + 1 < heights.length ? xOfStretch(index + 1) : width;
    for (let x = from; x < Math.max(to, from + 1); x += 1) tall[x] = Math.max(tall[x]!, share);
  }
  for (const [x, share] of tall.entries()) {
    const mark = Math.max(1, share * height * 0.7);
    pen.fillRect(x, height - mark, 1, mark);
  }
  pen.fillStyle = colour("s-failed");
  for (const [index, { isBad }] of stretches.entries()) if (isBad) pen.fillRect(xOfStretch(index), 0, 2, height);
}
