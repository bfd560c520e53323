import type { Session } from "../../src/protocol/session.ts";
import { lastPauseOf } from "../log/conversation-log.ts";
import { useHere } from "../moment/here.tsx";
import { becauseOf } from "../parts/because.ts";
import { useWords } from "../words/words.tsx";
import { decisionBehind } from "./decision-behind.ts";
import { DecisionText } from "./decisions.tsx";
import styles from "./floor.module.css";

/** Why a session is in its state, and what brings it back to the floor. Shows nothing if that is unknown. */
export function Why({ session }: { session: Session }) {
  const { say } = useWords();
  const { floor, log, count } = useHere();
  const { id, state, pausedBy } = session;
  const decision = decisionBehind(floor?.decisions ?? [], session);
  const because = state === "paused" ? becauseOf(lastPauseOf(log.events, id, count), say) : undefined;
  if (state === "archived" || (state !== "paused" && !decision)) return undefined;
  return (
    <p className={styles["why"]} data-state={state}>
      {decision && <DecisionText decision={decision} />}
      {!decision && pausedBy && `${say(`pausedby.${pausedBy}`)}${because === undefined ? "" : `: ${because}`}.`}{" "}
      {pausedBy && say(pausedBy === "preemption" ? "why.preemption" : "why.stays")}
    </p>
  );
}
