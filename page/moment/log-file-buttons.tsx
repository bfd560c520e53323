import { useRef } from "react";
import { MAX_FILE_BYTES, readLogFile, writeLogFile } from "../log/log-file.ts";
import { floorName } from "../parts/floor-name.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { useHere } from "./here.tsx";
import styles from "./moment-bar.module.css";

/** Saves the log as it was read, and opens a saved one. */
export function LogFileButtons() {
  const { say } = useWords();
  const { floorId, log, openFile } = useHere();
  const picker = useRef<HTMLInputElement>(null);
  const { act, refusal } = useAct();
  const save = () => {
    const text = writeLogFile({ floorId: floorId ?? "", events: log.events });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `interlock-${floorName(floorId ?? "").replace(/[^\p{L}\p{N}]+/gu, "-")}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const open = (file: File | undefined) =>
    act(async () => {
      if (!file) return;
      if (file.size > MAX_FILE_BYTES) throw new Error(say("log.toolarge"));
      openFile(readLogFile(await file.text()));
    });
  return (
    <span className={styles["files"]}>
      {log.events.length > 0 && (
        <button type="button" onClick={save}>
          <span aria-hidden="true">↓</span>
          <span>{say("log.save")}</span>
        </button>
      )}
      <button type="button" onClick={() => picker.current?.click()}>
        <span aria-hidden="true">↑</span>
        <span>{say("log.open")}</span>
      </button>
      <input
        ref={picker}
        type="file"
        accept="application/json,.json"
        hidden
        aria-label={say("log.open")}
        onChange={({ target }) => {
          void open(target.files?.[0]);
          // The same file may be chosen again.
          target.value = "";
        }}
      />
      {refusal && <span role="alert">{say("log.bad", { reason: refusal.text })}</span>}
    </span>
  );
}
