import { useHere } from "../moment/here.tsx";
import { LogFileButtons } from "../moment/log-file-buttons.tsx";
import { LogGaps } from "../moment/log-gaps.tsx";
import { useWords } from "../words/words.tsx";
import { type Kind, PRESETS } from "./kinds.ts";
import styles from "./timeline.module.css";
import type { Zoom } from "./use-zoom.ts";

interface Props {
  /** The numbers of sessions: those with a lane now, and all. */
  shown: number;
  sessions: number;
  zoom: Zoom;
  /** Shows the whole log; undefined if it is shown. */
  onWhole: (() => void) | undefined;
  kind: Kind;
  onKind: (kind: Kind) => void;
}

/** What the timeline shows, and the buttons that choose it. */
export function TimelineHead({ shown, sessions, zoom, onWhole, kind, onKind }: Props) {
  const { say, number } = useWords();
  const { log, floorId, isFolded, setFilter } = useHere();
  return (
    <header className={styles["head"]}>
      <h1>{say("timeline.title")}</h1>
      <span className={styles["quiet"]}>
        {say("timeline.count", {
          shown: number.format(shown),
          sessions: number.format(sessions),
          events: number.format(log.events.length),
        })}
        <LogGaps />
      </span>
      <div className={styles["zoom"]}>
        <button type="button" aria-label={say("timeline.earlier")} onClick={zoom.earlier}>
          ◂
        </button>
        <button type="button" aria-label={say("timeline.zoomin")} onClick={zoom.nearer}>
          +
        </button>
        <button type="button" aria-label={say("timeline.zoomout")} onClick={zoom.farther}>
          −
        </button>
        <button type="button" aria-label={say("timeline.later")} onClick={zoom.later}>
          ▸
        </button>
        <button type="button" disabled={!onWhole} onClick={onWhole}>
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
          onClick={() => onKind(kind === preset ? "all" : preset)}
        >
          {say(`log.${preset}`)}
        </button>
      ))}
      {floorId === undefined && <LogFileButtons />}
    </header>
  );
}
