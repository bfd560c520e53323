import type { Matrix, MatrixCell, MatrixEffect } from "../../src/protocol/matrix.ts";
import { ScrolledTable } from "../parts/scrolled-table.tsx";
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
      <ScrolledTable
        label={say("matrix.table")}
        heads={[say("matrix.corner"), ...agents.map(({ id }) => id)]}
        look={[styles["scroll"], styles["matrix"]]}
      >
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
      </ScrolledTable>
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
