import { type FormEvent, useState } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { useBorrowedFocus } from "../../parts/commands/use-borrowed-focus.ts";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../session.module.css";
import { useOpenSession } from "./open-session.ts";

/** Asks for the zone to which a session of a user moves, and opens the session in which it goes on. */
export function MoveForm({ session, onLeave }: { session: Session; onLeave: () => void }) {
  const { say } = useWords();
  const client = useClient();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const openSession = useOpenSession();
  const { borrower, giveBack } = useBorrowedFocus<HTMLInputElement>();
  const [zone, setZone] = useState("");
  const leave = () => {
    onLeave();
    giveBack();
  };
  const move = (event: FormEvent) => {
    event.preventDefault();
    if (isBusy) return;
    void act(async () => {
      openSession((await client.moveSession(session.id, zone.trim() || null)).session);
      onLeave();
    });
  };
  return (
    <>
      <form
        className={styles["fork"]}
        aria-label={say("session.move")}
        onSubmit={move}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          leave();
        }}
      >
        <label>
          {say("move.zone")}{" "}
          <input ref={borrower} value={zone} maxLength={128} onChange={({ target }) => setZone(target.value)} />
        </label>
        <button type="submit">{say("move.yes")}</button>
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
