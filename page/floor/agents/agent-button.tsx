import type { AgentView } from "../../../src/client/answers.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../floor.module.css";

interface Props {
  agent: AgentView;
  disabled: boolean;
  /** Whether a command is under way: a press does nothing, and the focus stays. */
  isBusy: boolean;
  /** Whether the result of its start is shown. */
  isConsidered: boolean;
  /** Whether a first press shows that result, and only the second starts the agent. */
  isPreviewing: boolean;
  /** The id of the sentence that explains it. */
  hintId: string;
  onConsider: () => void;
  onLeave: () => void;
  onPress: () => void;
}

/** Starts an agent; while it is hovered or has the focus, the result of its start is shown. */
export function AgentButton(props: Props) {
  const { agent, disabled, isBusy, isConsidered, isPreviewing, hintId, onConsider, onLeave, onPress } = props;
  const { say } = useWords();
  return (
    <button
      type="button"
      className={styles["agent"]}
      disabled={disabled}
      aria-disabled={isBusy}
      data-chosen={isConsidered}
      aria-describedby={isPreviewing ? `about-${agent.id} ${hintId}` : `about-${agent.id}`}
      // A finger does not hover: it presses.
      onPointerEnter={({ pointerType }) => pointerType !== "touch" && onConsider()}
      onPointerLeave={({ pointerType }) => pointerType !== "touch" && onLeave()}
      onFocus={onConsider}
      onBlur={onLeave}
      onClick={() => !isBusy && onPress()}
    >
      <b>{agent.name}</b>
      <span className={styles["priority"]}>{agent.priority}</span>
      <span className={styles["meter"]} aria-hidden="true">
        <span style={{ width: `${agent.priority}%` }} />
      </span>
      <span className={styles["quiet"]} id={`about-${agent.id}`}>
        {isPreviewing && isConsidered
          ? say("whatif.again")
          : say(agent.interruptible ? "agents.interruptible" : "agents.uninterruptible")}
        {agent.available ? "" : ` · ${say("agents.unavailable")}`}
      </span>
    </button>
  );
}
