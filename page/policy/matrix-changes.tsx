import type { CatalogueDifference } from "../../src/client/answers.ts";
import { useWords } from "../words/words.tsx";
import { cellText } from "./matrix-table.tsx";

/** The maximum number of changed cells that are listed. */
const MAX_LISTED = 500;

/** What another catalogue changes in the matrix of the one in use. */
export function MatrixChanges({ difference }: { difference: CatalogueDifference }) {
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
            {say("matrix.cell", { holder, challenger })}{" "}
            <span data-effect={before.effect}>{cellText(before, say)}</span> →{" "}
            <b data-effect={after.effect}>{cellText(after, say)}</b>
          </li>
        ))}
      </ul>
      {cells.length > MAX_LISTED && <p>{say("matrix.more", { count: cells.length - MAX_LISTED })}</p>}
    </>
  );
}
