import { type KeyboardEvent, useRef, useState } from "react";
import { SessionList } from "../session/list/session-list.tsx";
import { useWords } from "../words/words.tsx";
import { AgentButtons } from "./agents/agent-buttons.tsx";
import type { Considered } from "./agents/use-what-if.ts";
import styles from "./floor.module.css";

const TABS = ["agents", "sessions"] as const;

/** The column beside the stack: the agents, or the sessions of the floor's user. */
export function Side(props: Considered) {
  const { say } = useWords();
  const [shown, setShown] = useState<(typeof TABS)[number]>("agents");
  const tabs = useRef<HTMLDivElement>(null);
  const press = ({ key }: KeyboardEvent) => {
    if (key !== "ArrowLeft" && key !== "ArrowRight") return;
    const other = shown === "agents" ? "sessions" : "agents";
    setShown(other);
    tabs.current?.querySelector<HTMLElement>(`#tab-${other}`)?.focus();
  };
  return (
    <div className={styles["side"]}>
      <div className={styles["column"]}>
        <div ref={tabs} className={styles["tabs"]} role="tablist" aria-label={say("floor.beside")}>
          {TABS.map((name) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`tab-${name}`}
              data-key={name === "sessions" ? "/" : undefined}
              aria-selected={shown === name}
              aria-controls="beside"
              tabIndex={shown === name ? 0 : -1}
              onClick={() => setShown(name)}
              onKeyDown={press}
            >
              {say(`${name}.title`)}
            </button>
          ))}
        </div>
        <div
          id="beside"
          className={styles["panel"]}
          data-shown={shown}
          role="tabpanel"
          aria-labelledby={`tab-${shown}`}
        >
          {shown === "agents" ? <AgentButtons {...props} /> : <SessionList />}
        </div>
      </div>
    </div>
  );
}
