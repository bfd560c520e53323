import type { Catalog } from "../../config/catalog/catalog.ts";
import { compareCatalogs } from "../../config/catalog/catalog-change.ts";
import { type Circumstances, hasNone } from "../../policy/circumstances.ts";
import { agentLines, differenceLines, differenceOf, wordOf } from "../../policy/matrix.ts";
import type { MatrixDifference } from "../../protocol/matrix.ts";
import { wrapToWidth } from "../text-width.ts";
import type { MatrixFormat } from "./matrix-text.ts";

const MAX_COLUMNS = 80;
/** The maximum number of lines of cells. A hundred agents have ten thousand cells. */
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
      return [...differenceLines(difference, MAX_CELLS), ...unseenParts(catalog, other, circumstances)]
        .flatMap((line) => wrapToWidth(line, MAX_COLUMNS))
        .join("\n")
        .concat("\n");
  }
}

/** Parts that differ and that the matrix shows only under these options. */
const SHOWN_BY = {
  priority_rules: "--at and --flag",
  restrictions: "--flag",
  user_preferences: "--user",
} as const;

/** The parts whose difference the matrix does not show, because it is made without a time, a user or flags. */
function unseenParts(catalog: Catalog, other: Catalog, circumstances: Circumstances): string[] {
  if (!hasNone(circumstances)) return [];
  const { parts } = compareCatalogs(catalog, other);
  return Object.entries(SHOWN_BY).flatMap(([part, options]) =>
    parts.includes(part) ? [`${part} differ: see what they change with ${options}`] : [],
  );
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
