import type { FormEvent } from "react";
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
export function SessionTitle({ title, draft, onDraft, onRename }: Props) {
  const { say } = useWords();
  if (draft === undefined) return <h1>{title}</h1>;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wanted = draft.trim();
    if (wanted === "" || draft === title) onDraft(undefined);
    else onRename(wanted);
  };
  return (
    <form onSubmit={submit}>
      <h1 className={styles["hidden"]}>{title}</h1>
      <input
        aria-label={say("session.newtitle")}
        value={draft}
        maxLength={256}
        onChange={({ target }) => onDraft(target.value)}
        onKeyDown={({ key }) => key === "Escape" && onDraft(undefined)}
      />
      <button type="submit">{say("session.save")}</button>
    </form>
  );
}
