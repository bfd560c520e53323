import type { FormEvent, KeyboardEvent } from "react";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { whenOf } from "../moment/time-text.ts";
import { isSendKey } from "../parts/commands/field-keys.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useDraft } from "../parts/commands/use-draft.ts";
import { isExternal } from "../parts/external-agent.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import styles from "./session.module.css";

/** The longest message that the server accepts, in UTF-16 units. */
export const MAX_TEXT = 262_144;

/**
 * Sends a message to the session. A text that the server did not accept stays in the field, with the reason beside it,
 * and so does what is typed before the answer.
 */
export function Composer({ session }: { session: Session }) {
  const { say, language } = useWords();
  const client = useClient();
  const { agents, linkTo } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const { text, setText, leaveUnsent } = useDraft(session.id);
  const { state, replacedBy } = session;
  const send = async () => {
    const content = text.trim();
    if (content === "" || isBusy) return;
    if (await act(() => client.send({ type: "chat", sessionId: session.id, content }))) leaveUnsent(content);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void send();
  };
  const press = (event: KeyboardEvent) => {
    if (!isSendKey(event)) return;
    event.preventDefault();
    void send();
  };
  if (state === "archived") {
    return (
      <p className={styles["quiet"]}>
        {say(replacedBy === undefined ? "session.over" : "session.replaced")}
        {replacedBy !== undefined && <a href={linkTo("session", { sessionId: replacedBy })}>{say("session.goeson")}</a>}
      </p>
    );
  }
  if (session.schedule)
    return (
      <p className={styles["quiet"]}>{say("session.scheduled", { time: whenOf(session.schedule.at, language) })}</p>
    );
  if (isExternal(agents, session)) return <p className={styles["quiet"]}>{say("session.external")}</p>;
  return (
    <form className={styles["composer"]} onSubmit={submit}>
      <textarea
        data-key="C"
        rows={2}
        value={text}
        maxLength={MAX_TEXT}
        aria-label={say("session.say")}
        placeholder={say("session.say")}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={press}
      />
      <button type="submit" disabled={isBusy || text.trim() === ""}>
        {say("session.send")}
      </button>
      <Outcome of={lastCommand} />
    </form>
  );
}
