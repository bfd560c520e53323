import { useWords } from "../../words/words.tsx";
import styles from "./sure.module.css";
import { useBorrowedFocus } from "./use-borrowed-focus.ts";

interface Props {
  question: string;
  /** The label of the button that confirms. */
  yes: string;
  disabled?: boolean;
  /** @param giveBack returns the focus; for a question that closes at once */
  onYes: (giveBack: () => void) => void;
  onNo: () => void;
}

/** Asks once, in place, before data is lost. It takes the focus, and returns it after a no; Escape means no. */
export function Sure({ question, yes, disabled = false, onYes, onNo }: Props) {
  const { say } = useWords();
  const { borrower, giveBack, leave, leaveOnEscape } = useBorrowedFocus<HTMLButtonElement>(onNo);
  return (
    <fieldset className={styles["sure"]} aria-label={question} onKeyDown={leaveOnEscape}>
      <span>{question}</span>
      <button ref={borrower} type="button" disabled={disabled} onClick={() => onYes(giveBack)}>
        {yes}
      </button>
      <button type="button" onClick={leave}>
        {say("sure.no")}
      </button>
    </fieldset>
  );
}
