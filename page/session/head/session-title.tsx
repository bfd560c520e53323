import { type FormEvent, useEffect } from "react";
import { useBorrowedFocus } from "../../parts/commands/use-borrowed-focus.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../session.module.css";

interface Props {
  title: string;
  /** The new title while it is written; undefined: the title is shown. */
  draft: string | undefined;
  onDraft: (draft: string | undefined) => void;
  onRename: (title: string) => void;
}

/** A session's title, or the field for a new one. */
export function SessionTitle({ draft, ...rest }: Props) {
  return draft === undefined ? <h1>{rest.title}</h1> : <TitleForm draft={draft} {...rest} />;
}

/** It takes the focus, and returns it when it is sent or left. */
function TitleForm({ title, draft, onDraft, onRename }: Props & { draft: string }) {
  const { say } = useWords();
  const { borrower, giveBack, leave, leaveOnEscape } = useBorrowedFocus<HTMLInputElement>(() => onDraft(undefined));
  useEffect(() => borrower.current?.select(), [borrower]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wanted = draft.trim();
    if (wanted === "" || draft === title) return leave();
    giveBack();
    onRename(wanted);
  };
  return (
    <form onSubmit={submit} onKeyDown={leaveOnEscape}>
      <h1 className={styles["hidden"]}>{title}</h1>
      <input
        ref={borrower}
        aria-label={say("session.newtitle")}
        value={draft}
        maxLength={256}
        onChange={({ target }) => onDraft(target.value)}
      />
      <button type="submit">{say("session.save")}</button>
    </form>
  );
}
