import type { SessionState } from "../../../src/protocol/session.ts";
import type { WordKey } from "../../words/en.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../session.module.css";
import { STATES_SHOWN } from "./states-shown.ts";
import type { SessionFilter } from "./use-sessions.ts";

interface Props {
  filter: SessionFilter;
  onFilter: (change: Partial<SessionFilter>) => void;
}

/** Words, a state and a switch that choose the sessions of the list. */
export function FilterFields({ filter: { q, state, withArchived }, onFilter }: Props) {
  const { say } = useWords();
  return (
    <>
      <input
        type="search"
        data-key="/"
        aria-label={say("sessions.search")}
        placeholder={say("sessions.search")}
        value={q}
        onChange={({ target }) => onFilter({ q: target.value })}
      />
      <p className={styles["filter"]}>
        <select
          aria-label={say("sessions.state")}
          value={state}
          onChange={({ target }) => onFilter({ state: target.value as SessionState | "" })}
        >
          <option value="">{say("sessions.any")}</option>
          {STATES_SHOWN.map((each) => (
            <option key={each} value={each}>
              {say(wordOf(each))}
            </option>
          ))}
        </select>
        <label>
          <input
            type="checkbox"
            checked={withArchived}
            onChange={({ target }) => onFilter({ withArchived: target.checked })}
          />{" "}
          {say("sessions.archived")}
        </label>
      </p>
    </>
  );
}

/** Why the list is empty; if by its filter, with the way to all sessions. */
export function NoSessions({ filter: { q, state }, onFilter }: Props) {
  const { say } = useWords();
  const isFiltered = q !== "" || state !== "";
  const filter = [q.trim() && `“${q.trim()}”`, state && say(wordOf(state))].filter((each) => each !== "").join(", ");
  return (
    <p className={styles["quiet"]}>
      {isFiltered ? say("sessions.nomatch", { filter }) : say("sessions.none")}{" "}
      {isFiltered && (
        <button type="button" onClick={() => onFilter({ q: "", state: "" })}>
          {say("sessions.clear")}
        </button>
      )}
    </p>
  );
}

const wordOf = (state: SessionState): WordKey => (state === "active" ? "sessions.active" : `state.${state}`);
