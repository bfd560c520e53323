import { type FormEvent, type KeyboardEvent, useState } from "react";
import type { SessionMessage } from "../../../src/client/conversation-reader.ts";
import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { isSendKey } from "../../parts/commands/field-keys.ts";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { useBorrowedFocus } from "../../parts/commands/use-borrowed-focus.ts";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import { MAX_TEXT } from "../composer.tsx";
import styles from "../session.module.css";
import { useOpenSession } from "./open-session.ts";

interface Props {
  message: SessionMessage;
  session: Session;
  onLeave: () => void;
}

/** Edits a message of the user: the new text is sent in a copy of the session that ends before the message. */
export function EditForm({ message, session, onLeave }: Props) {
  const { say } = useWords();
  const client = useClient();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const openSession = useOpenSession();
  const [text, setText] = useState(message.content);
  // A session that has the floor does not lose it to its own copy: only a copy that replaces it gets the floor.
  const [replaces, setReplaces] = useState(session.state === "active" || session.state === "ducked");
  const { borrower, leave, leaveOnEscape } = useBorrowedFocus<HTMLTextAreaElement>(onLeave);
  const isArchived = session.state === "archived";
  const hasContent = text.trim() !== "" || (message.images?.length ?? 0) > 0;
  const send = () =>
    act(async () => {
      if (isBusy || !hasContent) return;
      const input = { content: text.trim(), ...(replaces && !isArchived && { replace: true }) };
      const { sessionId = "" } = await client.editMessage(session.id, message.id, input);
      openSession((await client.getSession(sessionId)).session);
    });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void send();
  };
  const press = (event: KeyboardEvent) => {
    if (!isSendKey(event)) return;
    event.preventDefault();
    void send();
  };
  return (
    <form className={styles["edit"]} aria-label={say("message.edit")} onSubmit={submit} onKeyDown={leaveOnEscape}>
      <textarea
        ref={borrower}
        rows={3}
        value={text}
        maxLength={MAX_TEXT}
        aria-label={say("message.edited")}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={press}
      />
      <p className={styles["quiet"]}>{say("message.editwhat")}</p>
      {!isArchived && (
        <label>
          <input type="checkbox" checked={replaces} onChange={({ target }) => setReplaces(target.checked)} />{" "}
          {say("message.replace")}
        </label>
      )}
      <p className={styles["actions"]}>
        <button type="submit" disabled={isBusy || !hasContent}>
          {say("message.sendedited")}
        </button>
        <button type="button" onClick={leave}>
          {say("cancel")}
        </button>
      </p>
      <Outcome of={lastCommand} />
    </form>
  );
}
