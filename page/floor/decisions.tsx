import { memo } from "react";
import type { Decision } from "../../src/protocol/decision.ts";
import { useAgentName, useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/time-text.ts";
import { Fold } from "../parts/fold.tsx";
import { usePaced } from "../parts/use-paced.ts";
import { useWords } from "../words/words.tsx";
import { keyOfDecision } from "./decision-key.ts";
import { decisionSentence, reasonSentence, signOfDecision } from "./decision-sentence.ts";
import styles from "./floor.module.css";

/** Decisions that are in view without scrolling, on a high screen. */
const IN_VIEW = 24;
/** The decisions below are at most this old, in ms: most readers do not see them while they move the moment. */
const BELOW_MS = 200;

/** The arbiter's decisions, the newest first, each with its reason and the origin of its numbers. */
export function Decisions({ decisions }: { decisions: readonly Decision[] }) {
  const { say, language } = useWords();
  const { isLive, resetAt } = useHere();
  const newest = useUnhurriedBelow(decisions, isLive).toReversed();
  return (
    <section className={styles["decisions"]} aria-labelledby="decisions">
      <h2 id="decisions">{say("decisions.title")}</h2>
      {resetAt !== undefined && (
        <p className={styles["quiet"]}>{say("log.reset", { time: clockOf(resetAt, language) })}</p>
      )}
      {newest.length === 0 && <p className={styles["quiet"]}>{say("decisions.empty")}</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard. */}
      <section className={styles["scroll"]} tabIndex={0} aria-label={say("decisions.all")}>
        <ol>
          {newest.map((decision, index) => (
            // At a past moment the elements are keyed by their index, because each step changes all decisions.
            <li key={isLive ? keyOfDecision(decision) : index} data-outcome={decision.outcome}>
              <FoldedDecision decision={decision} />
            </li>
          ))}
        </ol>
      </section>
    </section>
  );
}

/** The decisions of a past moment, of which those out of view may be of the moment before. */
function useUnhurriedBelow(decisions: readonly Decision[], isLive: boolean): readonly Decision[] {
  const known = usePaced(isLive ? undefined : decisions, BELOW_MS);
  if (isLive || known === undefined || known === decisions) return decisions;
  return [...known.slice(0, -IN_VIEW), ...decisions.slice(-IN_VIEW)];
}

const FoldedDecision = memo(function FoldedDecision({ decision }: { decision: Decision }) {
  return (
    <Fold isRow summary={<DecisionText decision={decision} />}>
      {() => <DecisionSteps decision={decision} />}
    </Fold>
  );
});

/** A decision as a sentence: the sessions and their numbers. */
export function DecisionText({ decision, isWhatIf = false }: { decision: Decision; isWhatIf?: boolean }) {
  const { say } = useWords();
  const agentName = useAgentName();
  return (
    <>
      <span aria-hidden="true">{signOfDecision(decision)} </span>
      {decisionSentence(decision, { say, agentName }, isWhatIf)}
    </>
  );
}

/** The second half of the sentence: the reason. */
export function DecisionReason({ decision }: { decision: Decision }) {
  const { say } = useWords();
  const agentName = useAgentName();
  return reasonSentence(decision, { say, agentName });
}

/** The rule, and the origin of a decision's numbers. */
export function DecisionSteps({ decision }: { decision: Decision }) {
  const { say } = useWords();
  const { challenger, wouldNeed, rule, reason, say: spoken } = decision;
  return (
    <dl className={styles["steps"]}>
      <dt>{say("decisions.rule")}</dt>
      <dd>
        <code>{reason}</code>
        {rule === undefined ? "" : ` · ${rule}`}
      </dd>
      <dt>{say("decisions.priority")}</dt>
      <dd>
        {challenger.explained.map(({ step, adjust, value }) => (
          <span key={step}>
            <code>{step}</code> {adjust === undefined ? "" : `${adjust > 0 ? "+" : ""}${adjust} `}→ {value}{" "}
          </span>
        ))}
      </dd>
      {wouldNeed !== undefined && (
        <>
          <dt>{say("decisions.wouldneed")}</dt>
          <dd>{wouldNeed}</dd>
        </>
      )}
      <dt>{say("decisions.said")}</dt>
      <dd>“{spoken}”</dd>
    </dl>
  );
}
