import type { Catalog } from "../../config/catalog/catalog.ts";
import { wrapToWidth } from "../text-width.ts";
import type { Circumstances } from "./circumstances.ts";
import { type Cell, type Matrix, type MatrixFormat, matrixOf, wordOf } from "./matrix.ts";

const MAX_COLUMNS = 80;
/** The most lines of cells. A hundred agents have ten thousand cells. */
const MAX_CELLS = 500;

interface ChangedCell {
  holder: string;
  challenger: string;
  before: Cell;
  after: Cell;
}

interface Difference {
  /** The enabled agents that only one of the catalogues has. */
  added: Matrix["agents"];
  removed: Matrix["agents"];
  priorities: { id: string; before: number; after: number }[];
  /** Of the agents that both have, in the order of the first. */
  cells: ChangedCell[];
}

/** What another catalogue would change in the matrix of this one. */
function differenceOf(catalog: Catalog, other: Catalog, circumstances: Circumstances): Difference {
  const [before, after] = [matrixOf(catalog, circumstances), matrixOf(other, circumstances)];
  const priorityIn = ({ agents }: Matrix) => new Map(agents.map(({ id, priority }) => [id, priority]));
  const [had, has] = [priorityIn(before), priorityIn(after)];
  const keyOf = ({ holder, challenger }: Cell) => `${holder} ${challenger}`;
  const cells = new Map(after.rows.flat().map((cell) => [keyOf(cell), cell]));
  return {
    added: after.agents.filter(({ id }) => !had.has(id)),
    removed: before.agents.filter(({ id }) => !has.has(id)),
    priorities: before.agents.flatMap(({ id, priority }) => {
      const now = has.get(id);
      return now === undefined || now === priority ? [] : [{ id, before: priority, after: now }];
    }),
    cells: before.rows.flat().flatMap((cell) => {
      const now = cells.get(keyOf(cell));
      if (!now || wordOf(now) === wordOf(cell)) return [];
      return [{ holder: cell.holder, challenger: cell.challenger, before: cell, after: now }];
    }),
  };
}

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
      return textOf(difference)
        .flatMap((line) => wrapToWidth(line, MAX_COLUMNS))
        .join("\n")
        .concat("\n");
  }
}

function aboutAgents({ added, removed, priorities }: Difference): string[] {
  return [
    ...added.map(({ id, priority }) => `new agent: ${id} (${priority})`),
    ...removed.map(({ id, priority }) => `no longer an agent: ${id} (${priority})`),
    ...priorities.map(({ id, before, after }) => `${id}: priority ${before} → ${after}`),
  ];
}

const countOf = ({ length }: readonly unknown[]) =>
  length === 1 ? "1 cell changes" : `${length || "no"} cells change`;

function textOf(difference: Difference): string[] {
  const { cells } = difference;
  const lines = cells.slice(0, MAX_CELLS).map(({ holder, challenger, before, after }) => {
    return `${challenger} asks while ${holder} is heard: ${wordOf(before)} → ${wordOf(after)}`;
  });
  const rest = cells.length > MAX_CELLS ? [`and ${cells.length - MAX_CELLS} more`] : [];
  return [...aboutAgents(difference), ...lines, ...rest, countOf(cells)];
}

function markdownOf(difference: Difference): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  const body = difference.cells.map(({ holder, challenger, before, after }) =>
    line([`\`${holder}\``, `\`${challenger}\``, wordOf(before), wordOf(after)]),
  );
  const agents = aboutAgents(difference).map((each) => `- ${each}\n`);
  const table = line(["holder", "challenger", "before", "after"]) + line(Array(4).fill("---")) + body.join("");
  return `${agents.join("")}${agents.length > 0 ? "\n" : ""}${table}`;
}
