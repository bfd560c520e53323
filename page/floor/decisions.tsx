import type { Decision } from "../../src/protocol/decision.ts";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/moment-text.ts";
import { Fold } from "../parts/fold.tsx";
import { useWords } from "../words/words.tsx";
import { keyOfDecision } from "./decision-key.ts";
import { decisionSentence, reasonSentence, signOfDecision } from "./decision-sentence.ts";
import styles from "./floor.module.css";

/** The arbiter's decisions, the newest first, each with its reason and the origin of its numbers. */
export function Decisions({ decisions }: { decisions: readonly Decision[] }) {
  const { say, language } = useWords();
  const { isLive, resetAt } = useHere();
  const newest = decisions.toReversed();
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
          {newest.map((decision, place) => (
            // At a past moment the elements are keyed by their place, because each step changes all decisions.
            <li key={isLive ? keyOfDecision(decision) : place} data-outcome={decision.outcome}>
              <Fold isRow summary={<DecisionText decision={decision} />}>
                {() => <DecisionSteps decision={decision} />}
              </Fold>
            </li>
          ))}
        </ol>
      </section>
    </section>
  );
}

/** A decision as a sentence: the sessions and their numbers. */
export function DecisionText({ decision, isWhatIf = false }: { decision: Decision; isWhatIf?: boolean }) {
  const { say } = useWords();
  const { agentName } = useHere();
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
  const { agentName } = useHere();
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
