import type { FormEvent } from "react";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useDraft } from "../parts/commands/use-draft.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import styles from "./floor.module.css";

/** Longer texts are written in the session's own view. */
const MAX_TEXT = 4_096;

/** A one-line message to the session that has the floor. A text that the server did not accept stays in the field. */
export function Talk({ sessionId }: { sessionId: string }) {
  const { say } = useWords();
  const client = useClient();
  const { isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const { text, setText, leaveUnsent } = useDraft(sessionId);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const content = text.trim();
    if (content === "" || isBusy) return;
    if (await act(() => client.send({ type: "chat", sessionId, content }))) leaveUnsent(content);
  };
  return (
    <form className={styles["talk"]} onSubmit={(event) => void submit(event)}>
      <input
        data-key="C"
        value={text}
        maxLength={MAX_TEXT}
        disabled={!isLive}
        aria-label={say("session.say")}
        placeholder={say("session.say")}
        onChange={({ target }) => setText(target.value)}
      />
      <button type="submit" disabled={!isLive || isBusy || text.trim() === ""}>
        {say("session.send")}
      </button>
      <Outcome of={lastCommand} />
    </form>
  );
}
