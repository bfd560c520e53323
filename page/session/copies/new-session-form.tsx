import type { FormEvent, ReactNode, RefObject } from "react";
import type { SessionAnswer } from "../../../src/client/answers.ts";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { useBorrowedFocus } from "../../parts/commands/use-borrowed-focus.ts";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../session.module.css";
import { useOpenSession } from "./open-session.ts";

interface Props<Field extends HTMLElement> {
  name: string;
  /** The label of the button that confirms. */
  yes: string;
  make: () => Promise<SessionAnswer>;
  onLeave: () => void;
  /** The field with its label. */
  children: (field: RefObject<Field | null>) => ReactNode;
}

/**
 * Asks for one thing before a session is made, and opens that session. The field takes the focus, and returns it after
 * a no; Escape means no.
 */
export function NewSessionForm<Field extends HTMLElement>({ name, yes, make, onLeave, children }: Props<Field>) {
  const { say } = useWords();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const openSession = useOpenSession();
  const { borrower, leave, leaveOnEscape } = useBorrowedFocus<Field>(onLeave);
  const confirm = (event: FormEvent) => {
    event.preventDefault();
    if (isBusy) return;
    void act(async () => {
      openSession((await make()).session);
      onLeave();
    });
  };
  return (
    <>
      <form className={styles["fork"]} aria-label={name} onSubmit={confirm} onKeyDown={leaveOnEscape}>
        {children(borrower)}
        <button type="submit">{yes}</button>
        <button type="button" onClick={leave}>
          {say("cancel")}
        </button>
      </form>
      <div className={styles["outcome"]}>
        <Outcome of={lastCommand} />
      </div>
    </>
  );
}
