import type { Matrix, MatrixCell, MatrixEffect } from "../../src/protocol/matrix.ts";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import styles from "./policy.module.css";

/** What a cell says, as in “ducks -14 dB”. */
export function cellText({ effect, level }: MatrixCell, say: Say): string {
  const word = say(`matrix.${effect}`);
  return level === undefined ? word : `${word} ${level} dB`;
}

/** Who does what to whom in a catalogue. */
export function MatrixTable({ matrix: { agents, rows } }: { matrix: Matrix }) {
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
                    {cellText(cell, say)}
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
