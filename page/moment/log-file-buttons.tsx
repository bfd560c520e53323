import { data as logSchema } from "virtual:log-schema";
import { MAX_FILE_BYTES, readLogFile, writeLogFile } from "../log/log-file.ts";
import { FileButton } from "../parts/commands/file-button.tsx";
import { saveFile } from "../parts/commands/save-file.ts";
import { floorName } from "../parts/floor-name.ts";
import { useAct } from "../parts/use-act.ts";
import { PageError } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { useHere } from "./here.tsx";
import styles from "./moment-bar.module.css";

/** Saves the log as it was read, and opens a saved one. */
export function LogFileButtons() {
  const { say } = useWords();
  const { floorId, log, openFile } = useHere();
  const { act, refusal } = useAct();
  const save = () => {
    const text = writeLogFile({ floorId: floorId ?? "", events: log.events });
    saveFile(new Blob([text], { type: "application/json" }), floorName(floorId ?? ""), "json");
  };
  const open = (file: File) =>
    act(async () => {
      if (file.size > MAX_FILE_BYTES) throw new PageError("log.toolarge");
      openFile(readLogFile(await file.text(), logSchema));
    });
  return (
    <span className={styles["files"]}>
      {log.events.length > 0 && (
        <button type="button" onClick={save}>
          <span aria-hidden="true">↓</span>
          <span>{say("log.save")}</span>
        </button>
      )}
      <FileButton label={say("log.open")} accept="application/json,.json" onFile={(file) => void open(file)}>
        <span aria-hidden="true">↑</span>
        <span>{say("log.open")}</span>
      </FileButton>
      {refusal && <span role="alert">{say("log.bad", { reason: refusal.text })}</span>}
    </span>
  );
}
