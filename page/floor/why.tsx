import type { Session } from "../../src/protocol/session.ts";
import { lastPauseOf } from "../log/conversation-log.ts";
import { useHere } from "../moment/here.tsx";
import { becauseOf, howPaused } from "../parts/because.ts";
import { joined } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import { decisionBehind } from "./decision-behind.ts";
import { decisionSentence, signOfDecision } from "./decision-sentence.ts";
import styles from "./floor.module.css";

/** Why a session is in its state, and what brings it back to the floor. Shows nothing if that is unknown. */
export function Why({ session }: { session: Session }) {
  const { say } = useWords();
  const { floor, log, count, agentName } = useHere();
  const { id, state, pausedBy } = session;
  const decision = decisionBehind(floor?.decisions ?? [], session);
  const because = state === "paused" ? becauseOf(lastPauseOf(log.events, id, count), say) : undefined;
  if (state === "archived" || (state !== "paused" && !decision)) return undefined;
  const sentence = decision
    ? decisionSentence(decision, { say, agentName })
    : pausedBy && say("why.paused", { how: howPaused(pausedBy, because, say) });
  const next = pausedBy && say(pausedBy === "preemption" ? "why.preemption" : "why.stays");
  return (
    <p className={styles["why"]} data-state={state}>
      {decision && <span aria-hidden="true">{signOfDecision(decision)} </span>}
      {joined(sentence ?? "", next ?? "")}
    </p>
  );
}
