import type { Look } from "../parts/look.ts";
import { useWords } from "../words/words.tsx";
import { barColour, HEIGHTS } from "./lanes/paint-lanes.ts";
import styles from "./timeline.module.css";

const SHOWN = ["idle", "running", "waiting", "failed", "ducked", "paused", "queued"] as const satisfies readonly Look[];

/** The colours and heights of the bars on the lanes, and the marks above them. */
export function Legend() {
  const { say } = useWords();
  return (
    <ul className={styles["legend"]} aria-label={say("timeline.legend")}>
      {SHOWN.map((look) => (
        <li key={look}>
          <i style={{ height: HEIGHTS[look], background: `var(--${barColour(look)})` }} />
          {say(`state.${look}`)}
        </li>
      ))}
      <li>
        <i data-mark="decision" />
        {say("timeline.decision")}
      </li>
      <li>
        <i data-mark="bad" />
        {say("timeline.bad")}
      </li>
    </ul>
  );
}
