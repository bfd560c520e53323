import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { countUpTo, type LogEvent, placeOf } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";
import { colourReader } from "../parts/colours.ts";
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
          lookAt(chosen === undefined && !isFile ? placeOf(events.at(-1)!) : undefined);
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
            lookAt(event === undefined ? Math.max(0, placeOf(events[0]!) - 1) : placeOf(event));
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
  const [held, setHeld] = useState<number>();
  const last = log.events.at(-1);
  const isHeld = at !== undefined && !isFile;
  // Set during rendering: an effect would first show the count of the previous stop.
  if (isHeld && held === undefined && last) setHeld(placeOf(last));
  if (!isHeld && held !== undefined) setHeld(undefined);
  return isHeld && held !== undefined ? log.events.length - countUpTo(log.events, held) : 0;
}

/** The strip's marks of events. */
const QUIET = 0;
const MOVED = 1;
const BAD = 2;

const densityIndex = () =>
  new LogIndex<number[]>(
    () => [],
    (index, event) => {
      const isBad = event.type === "error" || (event.type === "arbitration" && event.data.outcome === "rejected");
      index.push(isBad ? BAD : event.type === "session_transition" ? MOVED : QUIET);
    },
  );

/** The number of events over time, with refusals and failures as ticks. */
function Density({ events, revision }: { events: readonly LogEvent[]; revision: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [index] = useState(densityIndex);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  useEffect(() => {
    const element = canvas.current!;
    const draw = () => drawDensity(element, index.of(events));
    const watching = new ResizeObserver(draw);
    watching.observe(element);
    draw();
    return () => watching.disconnect();
  }, [index, events, revision]);
  return <canvas ref={canvas} />;
}

function drawDensity(canvas: HTMLCanvasElement, events: readonly number[]): void {
  const width = Math.max(1, canvas.clientWidth);
  const height = Math.max(1, canvas.clientHeight);
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const colour = colourReader(canvas);
  const [bad, other] = [colour("s-failed"), colour("s-created")];
  const marks = new Float64Array(width);
  const share = width / events.length;
  for (let index = 0; index < events.length; index += 1) {
    const x = Math.min(width - 1, Math.floor(index * share));
    if (events[index] === MOVED) marks[x]! += 1;
    else if (events[index] === BAD) marks[x] = Number.NEGATIVE_INFINITY;
  }
  const most = Math.max(1, ...marks.filter(Number.isFinite));
  for (const [x, mark] of marks.entries()) {
    const isBad = !Number.isFinite(mark);
    pen.fillStyle = isBad ? bad : other;
    const tall = isBad ? height : (mark / most) * height * 0.7;
    pen.fillRect(x, height - tall, isBad ? 2 : 1, tall);
  }
}
