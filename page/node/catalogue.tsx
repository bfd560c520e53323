import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import type { CatalogueDifference, CatalogueFault, MatrixAnswer } from "../../src/client/answers.ts";
import { ClientError } from "../../src/client/client-error.ts";
import type { Matrix, MatrixCell, MatrixEffect } from "../../src/protocol/matrix.ts";
import { useClient } from "../../src/react/hooks.ts";
import { FileButton } from "../parts/commands/file-button.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useAct } from "../parts/use-act.ts";
import { failureText, PageError } from "../words/failure-text.ts";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import styles from "./catalogue.module.css";

/** The largest catalogue that a node reads, in bytes. */
const MAX_FILE_BYTES = 1_048_576;
/** The maximum number of changed cells that are listed. */
const MAX_LISTED = 500;

/**
 * Who does what to whom in the catalogue in use, and what an edited copy of it would change. Writes nothing.
 * @param hash of the catalogue in use: with another one the matrix is read again
 */
export function Catalogue({ hash }: { hash: string }) {
  const { say } = useWords();
  const { matrix, failure } = useMatrix(hash);
  return (
    <section className={styles["catalogue"]} aria-labelledby="catalogue">
      <h2 id="catalogue">{say("matrix.title")}</h2>
      {failure && <p role="alert">{failureText(failure, say)}</p>}
      {matrix && <MatrixTable matrix={matrix} />}
      <EditedCopy />
    </section>
  );
}

function useMatrix(hash: string): { matrix?: MatrixAnswer; failure?: Error } {
  const client = useClient();
  const [read, setRead] = useState<{ matrix?: MatrixAnswer; failure?: Error }>({});
  // biome-ignore lint/correctness/useExhaustiveDependencies: another catalogue has another matrix.
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    client.getMatrix({}, { signal }).then(
      (matrix) => setRead({ matrix }),
      (failure: Error) => {
        if (!signal.aborted) setRead({ failure });
      },
    );
    return () => leaving.abort();
  }, [client, hash]);
  return read;
}

/** What a cell says, as in “ducks -14 dB”. */
function wordOf({ effect, level }: MatrixCell, say: Say): string {
  const word = say(`matrix.${effect}`);
  return level === undefined ? word : `${word} ${level} dB`;
}

function MatrixTable({ matrix: { agents, rows } }: { matrix: Matrix }) {
  const { say } = useWords();
  const used = new Set<MatrixEffect>(rows.flat().map(({ effect }) => effect));
  return (
    <>
      <p className={styles["quiet"]}>{say("matrix.about")}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard. */}
      <section className={styles["scroll"]} tabIndex={0} aria-label={say("matrix.table")}>
        <table className={styles["matrix"]}>
          <thead>
            <tr>
              <th scope="col">{say("matrix.corner")}</th>
              {agents.map(({ id }) => (
                <th key={id} scope="col">
                  {id}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((cells, index) => (
              <tr key={agents[index]!.id}>
                <th scope="row">
                  {agents[index]!.id} <small>{agents[index]!.priority}</small>
                </th>
                {cells.map((cell) => (
                  <td key={cell.challenger} data-effect={cell.effect}>
                    {wordOf(cell, say)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <dl className={styles["legend"]}>
        {[...used].map((effect) => (
          <div key={effect}>
            <dt data-effect={effect}>{say(`matrix.${effect}`)}</dt>
            <dd>{say(`matrix.means.${effect}`)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** A field for an edited copy of the file, and what it would change. */
function EditedCopy() {
  const { say } = useWords();
  const client = useClient();
  const comparing = useAct();
  const [text, setText] = useState("");
  const [found, setFound] = useState<ReactNode>();
  const compare = (yaml: string) =>
    comparing.act(async () => {
      setFound(undefined);
      try {
        setFound(<Difference difference={await client.compareCatalogue(yaml)} />);
      } catch (error) {
        const faults = error instanceof ClientError ? error.facts.faults : undefined;
        if (!faults) throw error;
        setFound(<Faulty faults={faults} />);
      }
    });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void compare(text);
  };
  const open = (file: File) =>
    void comparing.act(async () => {
      if (file.size > MAX_FILE_BYTES) throw new PageError("matrix.toolarge");
      const yaml = await file.text();
      setText(yaml);
      await compare(yaml);
    });
  return (
    <form className={styles["copy"]} onSubmit={submit}>
      <label htmlFor="edited">{say("matrix.edited")}</label>
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
      <span className={styles["buttons"]}>
        <button type="submit" disabled={comparing.isBusy || text.trim() === ""}>
          {say("matrix.compare")}
        </button>
        <FileButton label={say("matrix.open")} accept=".yaml,.yml,application/yaml" onFile={open}>
          <span aria-hidden="true">↑</span> {say("matrix.open")}
        </FileButton>
      </span>
      <Outcome of={comparing} />
      <div aria-live="polite">{found}</div>
    </form>
  );
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

/** The faults of a catalogue, each with its line and column. */
export function Faults({ faults }: { faults: readonly CatalogueFault[] }) {
  return (
    <ul>
      {faults.map(({ line, column, path, message }) => (
        <li key={`${line}:${column}:${path}`}>
          <code>{`${line}:${column} ${path}`}</code> {message}
        </li>
      ))}
    </ul>
  );
}

function Difference({ difference }: { difference: CatalogueDifference }) {
  const { say } = useWords();
  const { added, removed, priorities, cells, changed, parts } = difference;
  const agents = [
    ...added.map(({ id, priority }) => say("matrix.added", { id, priority })),
    ...removed.map(({ id, priority }) => say("matrix.removed", { id, priority })),
    ...priorities.map(({ id, before, after }) => say("matrix.priority", { id, before, after })),
    ...(changed.length > 0 ? [say("matrix.entries", { names: changed.join(", ") })] : []),
    ...(parts.length > 0 ? [say("matrix.parts", { names: parts.join(", ") })] : []),
  ];
  return (
    <>
      <p>{cells.length === 0 ? say("matrix.nocells") : say("matrix.cells", { count: cells.length })}</p>
      <ul>
        {agents.map((line) => (
          <li key={line}>{line}</li>
        ))}
        {cells.slice(0, MAX_LISTED).map(({ holder, challenger, before, after }) => (
          <li key={`${holder} ${challenger}`}>
            {say("matrix.cell", { holder, challenger })} <span data-effect={before.effect}>{wordOf(before, say)}</span>{" "}
            → <b data-effect={after.effect}>{wordOf(after, say)}</b>
          </li>
        ))}
      </ul>
      {cells.length > MAX_LISTED && <p>{say("matrix.more", { count: cells.length - MAX_LISTED })}</p>}
    </>
  );
}
