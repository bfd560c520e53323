import { lengthText } from "../../moment/time-text.ts";
import { useWords } from "../../words/words.tsx";
import type { ShownGap } from "../folding.ts";
import styles from "./gap-marks.module.css";
import type { LaneSpan } from "./lanes.ts";

/** The lengths of folded gaps, above painted lanes. */
export function GapMarks({ gaps, span: { from, to } }: { gaps: readonly ShownGap[]; span: LaneSpan }) {
  const { language } = useWords();
  const percent = (width: number) => `${(width / (to - from)) * 100}%`;
  return gaps.map(({ point, width, ms }) => (
    <span key={point} className={styles["gap"]} style={{ left: percent(point - from), width: percent(width) }}>
      ⋯ {lengthText(ms, language)}
    </span>
  ));
}
