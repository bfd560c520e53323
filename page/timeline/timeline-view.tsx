import { type KeyboardEvent, useEffect, useEffectEvent, useRef, useState } from "react";
import { placeOf, timeOf } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { LogFileButtons } from "../moment/log-file-buttons.tsx";
import { LogStanding, NoEvents } from "../moment/log-standing.tsx";
import { clockOf } from "../moment/moment-text.ts";
import { usePaintedTheme } from "../parts/screen/use-painted-theme.ts";
import { useViewport } from "../parts/screen/use-viewport.ts";
import { useWords } from "../words/words.tsx";
import { EventList } from "./event-list.tsx";
import { lengthText } from "./folding.ts";
import { useInspector } from "./inspector.tsx";
import { PRESETS } from "./kinds.ts";
import { LaneName } from "./lane-name.tsx";
import { laneIndex, moved, zoomed } from "./lanes.ts";
import { Overview } from "./overview.tsx";
import { LANE_PX, paintLanes } from "./paint-lanes.ts";
import styles from "./timeline.module.css";
import { useAxis } from "./use-axis.ts";
import { useKind } from "./use-kind.ts";
import { useLaneFingers } from "./use-lane-fingers.ts";

/** Lanes above and below the visible ones. */
const SPARE = 4;
const ZOOM = 1.25;
const STEP = 0.1;

/** A lane for each session over the whole log; pressing on a lane chooses a moment. */
export function TimelineView() {
  const { say, language, number } = useWords();
  const { log, count, at, isFile, floorId, isFolded, setFilter, linkTo, agentName, lookAt } = useHere();
  const { events, revision } = log;
  const [index] = useState(laneIndex);
  const model = index.of(events);
  const { marks, marksOf } = model;
  const { axis, gaps, whole, span, chosen, setChosen } = useAxis(model);
  const { kind, setKind, lanes, places } = useKind(model.lanes);
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

  const rows = Math.min(seen.rows, lanes.length - seen.first);
  const theme = usePaintedTheme();
  const { inspector, opener, isBeside } = useInspector();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the width, the theme and the log change what is painted.
  useEffect(() => {
    const picture = { lanes, marks: marksOf, axis, span, first: seen.first, count: Math.max(0, rows), end };
    paintLanes({ canvas: canvas.current!, ...picture });
  }, [lanes, marksOf, revision, axis, span, seen, rows, end, theme]);

  const part = (place: number) => `${((place - span.from) / (span.to - span.from)) * 100}%`;
  const now = events[count - 1];
  /** The place that zooming keeps in place. */
  const middle = now ? axis.placeOf(timeOf(now)) : span.to;
  const choose = (moment: number) => {
    let index = 0;
    for (let high = events.length; index < high; ) {
      const middle = (index + high) >> 1;
      if (timeOf(events[middle]!) <= moment) index = middle + 1;
      else high = middle;
    }
    const event = events[Math.max(0, index - 1)];
    if (event) lookAt(placeOf(event));
  };
  const fingers = useLaneFingers({ span, whole, onPress: (place) => choose(axis.timeAt(place)), onZoom: setChosen });
  const wheel = useEffectEvent((event: WheelEvent) => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    const by = event.deltaY || event.deltaX;
    if (event.ctrlKey) setChosen(zoomed(span, by > 0 ? ZOOM : 1 / ZOOM, middle, whole));
    else setChosen(moved(span, by > 0 ? STEP : -STEP, whole));
  });
  useEffect(() => {
    const element = box.current!;
    const listen = (event: WheelEvent) => wheel(event);
    element.addEventListener("wheel", listen, { passive: false });
    return () => element.removeEventListener("wheel", listen);
  }, []);
  const zoom = (factor: number) => setChosen(zoomed(span, factor, middle, whole));
  const press = ({ code }: KeyboardEvent) => {
    if (code === "KeyW" || code === "Equal") zoom(1 / ZOOM);
    else if (code === "KeyS" || code === "Minus") zoom(ZOOM);
    else if (code === "KeyA") setChosen(moved(span, -STEP, whole));
    else if (code === "KeyD") setChosen(moved(span, STEP, whole));
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys that the buttons above the lanes have too.
    <div className={styles["view"]} data-inspected={isBeside} onKeyDown={press}>
      <header className={styles["head"]}>
        <h1>{say("timeline.title")}</h1>
        <span className={styles["quiet"]}>
          {say("timeline.count", {
            shown: number.format(lanes.length),
            sessions: number.format(model.lanes.length),
            events: number.format(events.length),
          })}
          <LogStanding />
        </span>
        <div className={styles["zoom"]}>
          <button
            type="button"
            aria-label={say("timeline.earlier")}
            onClick={() => setChosen(moved(span, -STEP, whole))}
          >
            ◂
          </button>
          <button type="button" aria-label={say("timeline.zoomin")} onClick={() => zoom(1 / ZOOM)}>
            +
          </button>
          <button type="button" aria-label={say("timeline.zoomout")} onClick={() => zoom(ZOOM)}>
            −
          </button>
          <button type="button" aria-label={say("timeline.later")} onClick={() => setChosen(moved(span, STEP, whole))}>
            ▸
          </button>
          <button type="button" disabled={!chosen} onClick={() => setChosen(undefined)}>
            {say("timeline.whole")}
          </button>
        </div>
        <button type="button" aria-pressed={isFolded} onClick={() => setFilter({ isFolded: !isFolded })}>
          {say("timeline.fold")}
        </button>
        {PRESETS.map((preset) => (
          <button
            key={preset}
            type="button"
            aria-pressed={kind === preset}
            onClick={() => setKind(kind === preset ? "all" : preset)}
          >
            {say(`log.${preset}`)}
          </button>
        ))}
        {floorId === undefined && <LogFileButtons />}
      </header>
      {events.length === 0 && (
        <NoEvents className={styles["quiet"]} nothing={floorId ? "timeline.empty" : "timeline.nofloor"} />
      )}
      <div className={styles["axis"]} aria-hidden="true">
        {[span.from, (span.from + span.to) / 2, span.to].map((place) => (
          <span key={place}>{clockOf(axis.timeAt(place), language, true)}</span>
        ))}
      </div>
      <Overview axis={axis} whole={whole} chosen={chosen} onChoose={setChosen} theme={theme} />
      <section
        ref={box}
        className={styles["lanes"]}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
        tabIndex={0}
        aria-label={say("timeline.lanes")}
      >
        <div className={styles["all"]} style={{ height: lanes.length * LANE_PX }}>
          <ul className={styles["names"]}>
            {lanes.slice(seen.first, seen.first + Math.max(0, rows)).map(({ sessionId, title, agentId }, index) => (
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
              style={{ height: Math.max(0, rows) * LANE_PX, transform: `translateY(${seen.first * LANE_PX}px)` }}
            />
            {gaps.map(({ place, takes, ms }) => (
              <span
                key={place}
                className={styles["gap"]}
                style={{ left: part(place), width: `${(takes / (span.to - span.from)) * 100}%` }}
              >
                ⋯ {lengthText(ms, language)}
              </span>
            ))}
            {now && (at !== undefined || isFile) && (
              <span className={styles["cursor"]} style={{ left: part(axis.placeOf(timeOf(now))) }} />
            )}
          </div>
        </div>
      </section>
      <EventList kind={kind} onKind={setKind} shown={places} opener={opener} />
      {inspector}
    </div>
  );
}
