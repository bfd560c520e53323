import { type ReactNode, useEffect, useRef, useState } from "react";
import type { CatalogueFault } from "../../src/client/answers.ts";
import { ClientError } from "../../src/client/client-error.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { FileButton } from "../parts/commands/file-button.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useDraft } from "../parts/commands/use-draft.ts";
import { Faults } from "../parts/faults.tsx";
import { useAct } from "../parts/use-act.ts";
import { PageError } from "../words/failure-text.ts";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import { MatrixChanges } from "./matrix-changes.tsx";
import styles from "./policy.module.css";
import { Replayed, replaySentence } from "./replayed.tsx";

/** The largest catalogue that a node reads, in bytes. */
const MAX_FILE_BYTES = 1_048_576;
const HOUR_MS = 3_600_000;
const SPANS = [
  ["policy.hour", HOUR_MS],
  ["policy.day", 24 * HOUR_MS],
  ["policy.week", 7 * 24 * HOUR_MS],
] as const;

/**
 * A field for another catalogue, what it would change in the one in use, and what would have happened on the floor.
 * @param mayCompare only operators compare with the catalogue in use
 */
export function OtherCatalogue({ mayCompare }: { mayCompare: boolean }) {
  const { say } = useWords();
  const client = useClient();
  const { floorId, isFile } = useHere();
  const { text, setText } = useDraft("another catalogue");
  const [found, setFound] = useState<ReactNode>();
  const { act, isBusy, refusal } = useAct();
  const leaving = useRef<AbortController>(undefined);
  useEffect(() => () => leaving.current?.abort(), []);

  const ask = (answer: (signal: AbortSignal) => Promise<Found>) =>
    act(
      async () => {
        setFound(undefined);
        const asking = new AbortController();
        leaving.current = asking;
        const { shown, sentence } = await foundBy(answer(asking.signal), asking.signal, say);
        setFound(shown);
        return sentence;
      },
      (sentence) => sentence,
    );
  const compare = (yaml: string) =>
    ask(async (signal) => {
      const difference = await client.compareCatalogue(yaml, {}, { signal });
      return { shown: <MatrixChanges difference={difference} />, sentence: "" };
    });
  const replay = (lastMs: number) =>
    ask(async (signal) => {
      const replayed = await client.replayFloor(floorId!, text, { lastMs }, { signal });
      return { shown: <Replayed replayed={replayed} />, sentence: replaySentence(replayed, say) };
    });
  const open = (file: File) =>
    void act(async () => {
      if (file.size > MAX_FILE_BYTES) throw new PageError("matrix.toolarge");
      const yaml = await file.text();
      setText(yaml);
      setFound(undefined);
      if (mayCompare) await compare(yaml);
    });
  const isOff = isBusy || text.trim() === "";
  return (
    <section className={styles["part"]} aria-labelledby="other">
      <h2 id="other">{say("policy.other")}</h2>
      <label className={styles["quiet"]} htmlFor="edited">
        {say("matrix.edited")}
      </label>
      <textarea
        id="edited"
        value={text}
        rows={6}
        maxLength={MAX_FILE_BYTES}
        spellCheck={false}
        placeholder={say("matrix.paste")}
        onChange={({ target }) => {
          setText(target.value);
          setFound(undefined);
        }}
      />
      <div className={styles["buttons"]}>
        <FileButton label={say("matrix.open")} accept=".yaml,.yml,application/yaml" onFile={open}>
          <span aria-hidden="true">↑</span> {say("matrix.open")}
        </FileButton>
        {mayCompare && (
          <button type="button" disabled={isOff} onClick={() => void compare(text)}>
            {say("matrix.compare")}
          </button>
        )}
      </div>
      {floorId === undefined || isFile ? (
        <p className={styles["quiet"]}>{say("policy.nofloor")}</p>
      ) : (
        <fieldset className={styles["buttons"]}>
          <legend>{say("policy.replay")}</legend>
          {SPANS.map(([word, lastMs]) => (
            <button key={word} type="button" disabled={isOff} onClick={() => void replay(lastMs)}>
              {say(word)}
            </button>
          ))}
          {isBusy && (
            <button type="button" onClick={() => leaving.current?.abort()}>
              {say("policy.stop")}
            </button>
          )}
        </fieldset>
      )}
      {isBusy && <p role="status">{say("policy.playing")}</p>}
      <Outcome of={{ isLate: false, ...(refusal && { refusal }) }} />
      {found}
    </section>
  );
}

/** What is shown, and its sentence for screen readers. */
interface Found {
  shown: ReactNode;
  sentence: string;
}

/** The answer, or the faults of the catalogue; nothing if its reader has left. */
async function foundBy(answer: Promise<Found>, signal: AbortSignal, say: Say): Promise<Found> {
  try {
    return await answer;
  } catch (error) {
    if (signal.aborted) return { shown: undefined, sentence: "" };
    const faults = error instanceof ClientError ? error.facts.faults : undefined;
    if (!faults) throw error;
    return { shown: <Faulty faults={faults} />, sentence: say("matrix.faults", { count: faults.length }) };
  }
}

function Faulty({ faults }: { faults: readonly CatalogueFault[] }) {
  const { say } = useWords();
  return (
    <>
      <p>{say("matrix.faults", { count: faults.length })}</p>
      <Faults faults={faults} />
    </>
  );
}
