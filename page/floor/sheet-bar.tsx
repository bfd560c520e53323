import { useState } from "react";
import type { Decision } from "../../src/protocol/decision.ts";
import { useHere } from "../moment/here.tsx";
import { Sheet } from "../parts/screen/sheet.tsx";
import { SessionList } from "../session/list/session-list.tsx";
import { useWords } from "../words/words.tsx";
import { Decisions, DecisionText } from "./decisions.tsx";
import styles from "./floor.module.css";

/**
 * Replaces the columns beside the stack on a narrow screen: the latest decision as a line, and sheets with the rest.
 */
export function SheetBar({ decisions }: { decisions: readonly Decision[] }) {
  const { say } = useWords();
  const { log } = useHere();
  const [open, setOpen] = useState<"sessions" | "decisions">();
  const close = () => setOpen(undefined);
  const newest = decisions.at(-1);
  return (
    <div className={styles["sheetbar"]} data-alone={log.events.length === 0}>
      <button type="button" data-key="/" aria-haspopup="dialog" onClick={() => setOpen("sessions")}>
        {say("sessions.title")}
      </button>
      <button type="button" className={styles["newest"]} aria-haspopup="dialog" onClick={() => setOpen("decisions")}>
        <b>{say("decisions.title")}</b>{" "}
        <span>{newest ? <DecisionText decision={newest} /> : say("decisions.empty")}</span>
      </button>
      {open === "sessions" && (
        <Sheet label={say("sessions.title")} onClose={close}>
          <SessionList />
        </Sheet>
      )}
      {open === "decisions" && (
        <Sheet label={say("decisions.title")} onClose={close}>
          <Decisions decisions={decisions} />
        </Sheet>
      )}
    </div>
  );
}
