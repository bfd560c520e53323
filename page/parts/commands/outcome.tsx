import { DecisionSteps, DecisionText } from "../../floor/decisions.tsx";
import { useWords } from "../../words/words.tsx";
import { Fold } from "../fold.tsx";
import type { Act } from "../use-act.ts";
import styles from "./outcome.module.css";

/**
 * The result of a command, beside its button: that its answer is late, or why it was refused, with the arbiter's steps
 * if it decided.
 */
export function Outcome({ of: { refusal, isLate } }: { of: Pick<Act, "refusal" | "isLate"> }) {
  const { say } = useWords();
  if (isLate) {
    return (
      <p role="status" className={styles["late"]}>
        {say("outcome.late")}
      </p>
    );
  }
  if (!refusal) return undefined;
  const { decision, text, isUnknown } = refusal;
  return (
    <div role="alert" className={styles["refusal"]}>
      {decision ? <DecisionText decision={decision} /> : isUnknown ? say("outcome.unknown", { reason: text }) : text}
      {decision && <Fold summary={say("outcome.why")}>{() => <DecisionSteps decision={decision} />}</Fold>}
    </div>
  );
}
