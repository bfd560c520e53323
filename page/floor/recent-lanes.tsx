import { memo, useState } from "react";
import { timeOf } from "../log/log-event.ts";
import { type Here, useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/time-text.ts";
import { useNow } from "../parts/use-now.ts";
import { usePaced } from "../parts/use-paced.ts";
import { laneIndex, lanesWithin } from "../timeline/lanes/lanes.ts";
import { AxisEnds, StillLanes } from "../timeline/lanes/still-lanes.tsx";
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
  const clock = useNow();
  const last = count === 0 ? 0 : timeOf(events[count - 1]!);
  const to = isLive ? Math.max(clock, last) : last;
  const from = to - RECENT_MS;
  const lanes = lanesWithin(all, { from, to }).slice(-MAX_LANES);
  const ends = [clockOf(from, language), clockOf(to, language)] as const;
  return (
    <section className={styles["recent"]} aria-labelledby="recent">
      <h2 id="recent">
        {say("recent.title")} <a href={linkTo("timeline")}>{say("timeline.title")}</a>
      </h2>
      {lanes.length === 0 ? (
        <>
          <p>{say("recent.none")}</p>
          <AxisEnds ends={ends} />
        </>
      ) : (
        <StillLanes
          linkTo={linkTo}
          agentName={agentName}
          lanes={lanes}
          marks={marksOf}
          span={{ from, to }}
          end={to}
          label={say("recent.picture", { sessions: lanes.length })}
          ends={ends}
          revision={revision}
        />
      )}
    </section>
  );
});
