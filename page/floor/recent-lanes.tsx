import { memo, useState } from "react";
import { timeOf } from "../log/log-event.ts";
import { type Here, useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/time-text.ts";
import { usePaintedTheme } from "../parts/screen/use-painted-theme.ts";
import { useCanvas } from "../parts/use-canvas.ts";
import { useNow } from "../parts/use-now.ts";
import { usePaced } from "../parts/use-paced.ts";
import { PLAIN_AXIS } from "../timeline/folding.ts";
import { LaneName } from "../timeline/lanes/lane-name.tsx";
import { laneIndex, lanesWithin } from "../timeline/lanes/lanes.ts";
import { LANE_PX, paintLanes } from "../timeline/lanes/paint-lanes.ts";
import { useWords } from "../words/words.tsx";
import styles from "./recent-lanes.module.css";

const RECENT_MS = 5 * 60_000;
/** Of more sessions, the newest are shown. */
const MAX_LANES = 10;
/** The picture is at most this old, in ms: it need not follow each step while the moment is dragged. */
const PAINTED_MS = 200;

/** The sessions of the five minutes before the shown moment: which had the floor when, and which were paused. */
export function RecentLanes() {
  return <Lanes here={usePaced(useHere(), PAINTED_MS)} />;
}

const Lanes = memo(function Lanes({ here }: { here: Here }) {
  const { say, language } = useWords();
  const { log, count, isLive, linkTo, agentName } = here;
  const { events, revision } = log;
  const [index] = useState(laneIndex);
  const { lanes: all, marksOf } = index.of(events);
  const theme = usePaintedTheme();
  const clock = useNow();
  const last = count === 0 ? 0 : timeOf(events[count - 1]!);
  const to = isLive ? Math.max(clock, last) : last;
  const from = to - RECENT_MS;
  const lanes = lanesWithin(all, { from, to }).slice(-MAX_LANES);
  const picture = { lanes, marks: marksOf, axis: PLAIN_AXIS, span: { from, to }, first: 0, count: lanes.length };
  const paint = (element: HTMLCanvasElement) => paintLanes({ canvas: element, ...picture, end: to });
  const canvas = useCanvas(paint, [lanes.length, marksOf, revision, to, theme]);
  return (
    <section className={styles["recent"]} aria-labelledby="recent">
      <h2 id="recent">
        {say("recent.title")} <a href={linkTo("timeline")}>{say("timeline.title")}</a>
      </h2>
      {lanes.length === 0 && <p>{say("recent.none")}</p>}
      {lanes.length > 0 && (
        <div className={styles["lanes"]} style={{ height: lanes.length * LANE_PX }}>
          <ul>
            {lanes.map(({ sessionId, agentId, title }) => (
              <LaneName
                key={sessionId}
                agent={agentName(agentId)}
                title={title}
                href={linkTo("session", { sessionId })}
                style={{ height: LANE_PX }}
              />
            ))}
          </ul>
          <canvas ref={canvas} role="img" aria-label={say("recent.picture", { sessions: lanes.length })} />
        </div>
      )}
      <p className={styles["axis"]} aria-hidden="true">
        <span>{clockOf(from, language)}</span>
        <span>{clockOf(to, language)}</span>
      </p>
    </section>
  );
});
