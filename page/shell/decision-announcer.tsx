import { useRef } from "react";
import type { Decision } from "../../src/protocol/decision.ts";
import { decisionSentence } from "../floor/decision-sentence.ts";
import { useHere } from "../moment/here.tsx";
import { usePaced } from "../parts/use-paced.ts";
import { useWords } from "../words/words.tsx";
import styles from "./frame.module.css";

/** The shortest interval between two announcements, in ms. */
const ANNOUNCED_MS = 2_000;

/**
 * Announces new decisions of the floor to screen readers, in every view. Of several decisions in a short time, the
 * latest is announced. Decisions from before the page was opened and past moments are not.
 */
export function DecisionAnnouncer() {
  const { say } = useWords();
  const { floor, isLive, agentName } = useHere();
  const newest = floor?.decisions.at(-1);
  const first = useRef<{ decision: Decision | undefined }>(undefined);
  if (floor && isLive) first.current ??= { decision: newest };
  const isNew = isLive && newest !== undefined && first.current !== undefined && newest !== first.current.decision;
  const announced = usePaced(isNew ? newest : undefined, ANNOUNCED_MS);
  return (
    <p className={styles["announced"]} aria-live="polite">
      {announced && decisionSentence(announced, { say, agentName })}
    </p>
  );
}
