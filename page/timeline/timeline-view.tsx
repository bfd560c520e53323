import { type KeyboardEvent, type PointerEvent, useEffect, useEffectEvent, useMemo, useRef, useState } from "react";
import { placeOf, timeOf } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { LogFileButtons } from "../moment/log-file-buttons.tsx";
import { LogStanding, NoEvents } from "../moment/log-standing.tsx";
import { clockOf } from "../moment/moment-text.ts";
import { useViewport } from "../parts/use-viewport.ts";
import { useWords } from "../words/words.tsx";
import { EventList } from "./event-list.tsx";
import { laneIndex, moved, zoomed } from "./lanes.ts";
import { LANE_PX, paintLanes } from "./paint-lanes.ts";
import styles from "./timeline.module.css";

/** Lanes above and below those that are seen. */
const SPARE = 4;
const ZOOM = 1.25;
const STEP = 0.1;
/** What the last event led to is seen for this part of the whole log. */
const AFTER = 0.03;

/** A lane for each session over the whole log; the moment is chosen by pressing on it. */
export function TimelineView() {
  const { say, language, number } = useWords();
  const { log, count, at, span: chosen, setSpan: setChosen, isFile, floorId, linkTo, agentName, lookAt } = useHere();
  const { events, revision } = log;
  const [index] = useState(laneIndex);
  const model = index.of(events);
  const { lanes, marks, marksOf, from } = model;
  const to = model.to + (model.to - from) * AFTER;
  const whole = useMemo(() => ({ from, to }), [from, to]);
  const span = chosen ?? whole;
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
  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the width, the theme and the log change what is painted.
  useEffect(() => {
    const picture = { lanes, marks: marksOf, span, first: seen.first, count: Math.max(0, rows), end: to };
    paintLanes({ canvas: canvas.current!, ...picture });
  }, [lanes, marksOf, revision, span, seen, rows, to, theme]);

  const part = (moment: number) => `${((moment - span.from) / (span.to - span.from)) * 100}%`;
  const now = events[count - 1];
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
  const momentOf = ({ clientX, currentTarget }: PointerEvent<HTMLElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    return span.from + ((clientX - left) / width) * (span.to - span.from);
  };
  const wheel = useEffectEvent((event: WheelEvent) => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    const by = event.deltaY || event.deltaX;
    if (event.ctrlKey) setChosen(zoomed(span, by > 0 ? ZOOM : 1 / ZOOM, now ? timeOf(now) : span.to, whole));
    else setChosen(moved(span, by > 0 ? STEP : -STEP, whole));
  });
  useEffect(() => {
    const element = box.current!;
    const listen = (event: WheelEvent) => wheel(event);
    element.addEventListener("wheel", listen, { passive: false });
    return () => element.removeEventListener("wheel", listen);
  }, []);
  const zoom = (factor: number) => setChosen(zoomed(span, factor, now ? timeOf(now) : span.to, whole));
  const press = ({ code }: KeyboardEvent) => {
    if (code === "KeyW" || code === "Equal") zoom(1 / ZOOM);
    else if (code === "KeyS" || code === "Minus") zoom(ZOOM);
    else if (code === "KeyA") setChosen(moved(span, -STEP, whole));
    else if (code === "KeyD") setChosen(moved(span, STEP, whole));
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys that the buttons above the lanes have too.
    <div className={styles["view"]} onKeyDown={press}>
      <header className={styles["head"]}>
        <h1>{say("timeline.title")}</h1>
        <span className={styles["quiet"]}>
          {say("timeline.count", { sessions: number.format(lanes.length), events: number.format(events.length) })}
          <LogStanding />
        </span>
        <button type="button" aria-label={say("timeline.earlier")} onClick={() => setChosen(moved(span, -STEP, whole))}>
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
        {floorId === undefined && <LogFileButtons />}
      </header>
      {events.length === 0 && (
        <NoEvents className={styles["quiet"]} nothing={floorId ? "timeline.empty" : "timeline.nofloor"} />
      )}
      <div className={styles["axis"]} aria-hidden="true">
        <span>{clockOf(span.from, language, true)}</span>
        <span>{clockOf((span.from + span.to) / 2, language, true)}</span>
        <span>{clockOf(span.to, language, true)}</span>
      </div>
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
              <li key={sessionId} style={{ transform: `translateY(${(seen.first + index) * LANE_PX}px)` }}>
                <a href={linkTo("session", { sessionId })} title={title}>
                  {agentName(agentId)} <small>{title}</small>
                </a>
              </li>
            ))}
          </ul>
          <div
            className={styles["field"]}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              choose(momentOf(event));
            }}
            onPointerMove={(event) => event.buttons === 1 && choose(momentOf(event))}
          >
            <canvas
              ref={canvas}
              role="img"
              aria-label={say("timeline.picture", { sessions: lanes.length, decisions: marks.length })}
              style={{ height: Math.max(0, rows) * LANE_PX, transform: `translateY(${seen.first * LANE_PX}px)` }}
            />
            {now && (at !== undefined || isFile) && (
              <span className={styles["cursor"]} style={{ left: part(timeOf(now)) }} />
            )}
          </div>
        </div>
      </section>
      <EventList />
    </div>
  );
}

/** Changes with what the canvas has to be painted anew for: it has its colours from the page's style. */
function useTheme(): string {
  const [theme, setTheme] = useState("");
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const look = () => setTheme(`${document.documentElement.dataset["theme"]} ${system.matches}`);
    const watching = new MutationObserver(look);
    watching.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    system.addEventListener("change", look);
    return () => {
      watching.disconnect();
      system.removeEventListener("change", look);
    };
  }, []);
  return theme;
}
