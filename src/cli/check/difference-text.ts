import type { Catalog } from "../../config/catalog/catalog.ts";
import type { Circumstances } from "../../policy/circumstances.ts";
import { agentLines, differenceLines, differenceOf, wordOf } from "../../policy/matrix.ts";
import type { MatrixDifference } from "../../protocol/matrix.ts";
import { wrapToWidth } from "../text-width.ts";
import type { MatrixFormat } from "./matrix-text.ts";

const MAX_COLUMNS = 80;
/** The most lines of cells. A hundred agents have ten thousand cells. */
const MAX_CELLS = 500;

/** What another catalogue would change, cell by cell. */
export function differenceText(
  catalog: Catalog,
  other: Catalog,
  { format, ...circumstances }: Circumstances & { format: MatrixFormat },
): string {
  const difference = differenceOf(catalog, other, circumstances);
  switch (format) {
    case "json":
      return `${JSON.stringify(difference, null, 2)}\n`;
    case "markdown":
      return markdownOf(difference);
    case "text":
      return differenceLines(difference, MAX_CELLS)
        .flatMap((line) => wrapToWidth(line, MAX_COLUMNS))
        .join("\n")
        .concat("\n");
  }
}

function markdownOf(difference: MatrixDifference): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  const body = difference.cells.map(({ holder, challenger, before, after }) =>
    line([`\`${holder}\``, `\`${challenger}\``, wordOf(before), wordOf(after)]),
  );
  const agents = agentLines(difference).map((each) => `- ${each}\n`);
  const table = line(["holder", "challenger", "before", "after"]) + line(Array(4).fill("---")) + body.join("");
  return `${agents.join("")}${agents.length > 0 ? "\n" : ""}${table}`;
}
