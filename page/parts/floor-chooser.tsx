import { useRef, useState } from "react";
import type { FloorSummary } from "../../src/protocol/floor.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";
import styles from "./floor-chooser.module.css";
import { FloorForm } from "./floor-form.tsx";
import { FloorLine } from "./floor-line.tsx";
import { floorName } from "./floor-name.ts";
import { Rows } from "./rows.tsx";
import { useAct } from "./use-act.ts";

/** The number of floors in the list; with more, the search is for ids. */
const MAX_FLOORS = 1_000;

/** The shown floor, and a list of all floors that the user may see. */
export function FloorChooser() {
  const { say } = useWords();
  const client = useClient();
  const here = useHere();
  const dialog = useRef<HTMLDialogElement>(null);
  const [floors, setFloors] = useState<readonly FloorSummary[]>();
  const [words, setWords] = useState("");
  const { act, refusal } = useAct();

  const open = () => {
    dialog.current?.showModal();
    setFloors(undefined);
    void act(async () => setFloors((await client.listFloors({ limit: MAX_FLOORS })).floors));
  };
  const shown = (floors ?? []).filter(({ floorId }) => floorName(floorId).toLowerCase().includes(words.toLowerCase()));
  const go = (floorId: string) => {
    dialog.current?.close();
    location.hash = here.linkTo("floor", { floorId, at: undefined });
  };

  return (
    <>
      <button type="button" className={styles["chosen"]} onClick={open} aria-haspopup="dialog" data-key="F">
        <span className={styles["word"]}>{say("floor.one")}</span>{" "}
        {here.floorId === undefined ? say("floor.choose") : floorName(here.floorId)} <span aria-hidden="true">▾</span>
      </button>
      <dialog ref={dialog} className={styles["dialog"]} aria-label={say("floor.choose")}>
        <h2>{say("floor.choose")}</h2>
        <input
          type="search"
          aria-label={say("floor.search")}
          placeholder={say("floor.search")}
          value={words}
          onChange={({ target }) => setWords(target.value)}
        />
        {refusal && <p role="alert">{refusal.text}</p>}
        {floors && shown.length === 0 && <p className={styles["none"]}>{say("floor.none")}</p>}
        <Rows
          items={shown}
          rowHeight={44}
          label={say("floor.choose")}
          keyOf={({ floorId }) => floorId}
          row={(floor) => (
            <button type="button" className={styles["floor"]} onClick={() => go(floor.floorId)}>
              <FloorLine floor={floor} />
            </button>
          )}
        />
        <FloorForm onOpen={go} />
        <button type="button" onClick={() => dialog.current?.close()}>
          {say("close")}
        </button>
      </dialog>
    </>
  );
}
