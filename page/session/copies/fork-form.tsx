import { type FormEvent, useState } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { useBorrowedFocus } from "../../parts/commands/use-borrowed-focus.ts";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../session.module.css";
import { useOpenSession } from "./open-session.ts";

interface Props {
  session: Session;
  /** The last message to copy. Default: all of them. */
  messageId?: string;
  onLeave: () => void;
}

/** Asks for the agent of a session's copy: its own by default, or another one of its catalogue. */
export function ForkForm({ session, messageId, onLeave }: Props) {
  const { say } = useWords();
  const client = useClient();
  const { agents, agentName } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const openSession = useOpenSession();
  const { borrower, giveBack } = useBorrowedFocus<HTMLSelectElement>();
  const [chosen, setChosen] = useState<string>();
  const agentId = chosen ?? session.agentId;
  const isListed = agents.some(({ id }) => id === agentId);
  const leave = () => {
    onLeave();
    giveBack();
  };
  const copy = (event: FormEvent) => {
    event.preventDefault();
    if (isBusy) return;
    const input = {
      ...(messageId !== undefined && { messageId }),
      ...(agentId !== session.agentId && { agentId }),
    };
    void act(async () => {
      openSession((await client.forkSession(session.id, input)).session);
      onLeave();
    });
  };
  return (
    <>
      <form
        className={styles["fork"]}
        aria-label={say(messageId === undefined ? "session.fork" : "message.fork")}
        onSubmit={copy}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          leave();
        }}
      >
        <label>
          {say("fork.agent")}{" "}
          <select ref={borrower} value={agentId} onChange={({ target }) => setChosen(target.value)}>
            {!isListed && <option value={agentId}>{agentName(agentId)}</option>}
            {agents.map(({ id, name, available }) => (
              <option key={id} value={id}>
                {available ? name : `${name} · ${say("agents.unavailable")}`}
              </option>
            ))}
          </select>
        </label>
        <button type="submit">{say("fork.yes")}</button>
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
