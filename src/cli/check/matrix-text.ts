import type { Catalog } from "../../config/catalog/catalog.ts";
import { type Circumstances, describe } from "../../policy/circumstances.ts";
import { matrixOf, wordOf } from "../../policy/matrix.ts";
import type { Matrix, MatrixCell, MatrixEffect } from "../../protocol/matrix.ts";
import { wrapToWidth } from "../text-width.ts";

export type MatrixFormat = "text" | "markdown" | "json";

const MAX_COLUMNS = 80;
const GAP = "  ";
/** Columns of the words in the legend, unless it has a longer one. */
const TERM_COLUMNS = 10;

const LEGEND: Readonly<Record<MatrixEffect, string>> = {
  pauses: "the challenger gets the floor, and the holder is paused",
  ducks: "the challenger gets the floor, and the holder continues beneath it, quieter by these dB",
  replaces: "the challenger gets the floor, and the holder ends",
  beneath: "the challenger starts beneath the holder, quieter by this many dB",
  waits: "the challenger waits for the floor",
  follows: "the challenger waits, and gets the floor as soon as nothing runs in the holder",
  refused: "the challenger is refused, and the holder notices nothing",
  restricted: "the flags or the hours do not let the holder be heard",
};

export function matrixText(catalog: Catalog, format: MatrixFormat, circumstances: Circumstances = {}): string {
  const { agents, rows } = matrixOf(catalog, circumstances);
  const about = describe(catalog, circumstances);
  switch (format) {
    case "json":
      return `${JSON.stringify({ agents, pairs: rows.flat() }, null, 2)}\n`;
    case "markdown":
      return `${about === undefined ? "" : `${about}\n\n`}${markdownOf(agents, rows)}`;
    case "text":
      return `${about === undefined ? "" : wrapToWidth(about, MAX_COLUMNS).join("\n").concat("\n")}${textOf(agents, rows)}`;
  }
}

/** The words that appear in the matrix, each with its meaning. */
function legendOf(rows: readonly MatrixCell[][]): [MatrixEffect, string][] {
  const used = new Set(rows.flat().map(({ effect }) => effect));
  return (Object.entries(LEGEND) as [MatrixEffect, string][]).filter(([effect]) => used.has(effect));
}

function markdownOf(agents: Matrix["agents"], rows: readonly MatrixCell[][]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  const names = agents.map(({ id }) => `\`${id}\``);
  const head = line(["holder ↓ challenger →", ...names]) + line(Array(agents.length + 1).fill("---"));
  const body = rows.map((cells, index) => line([names[index]!, ...cells.map(wordOf)])).join("");
  const legend = legendOf(rows).map(([effect, meaning]) => `- ${effect}: ${meaning}\n`);
  return `${head}${body}\n${legend.join("")}`;
}

/** Split the columns into blocks of at most 80 characters, below each other, each with all rows. */
function textOf(agents: Matrix["agents"], rows: readonly MatrixCell[][]): string {
  const digits = String(agents.length).length;
  const labels = agents.map(({ id, priority }, index) => `${String(index + 1).padStart(digits)} ${id} (${priority})`);
  // A name may fill a whole line: shorten it, because the cells beside it matter more.
  const labelWidth = Math.min(Math.max(...labels.map(({ length }) => length)), MAX_COLUMNS / 2);
  const widths = agents.map((_, column) =>
    Math.max(String(column + 1).length, ...rows.map((cells) => wordOf(cells[column]!).length)),
  );
  const tables: string[] = [];
  for (let from = 0; from < agents.length; ) {
    let to = from;
    let width = labelWidth;
    while (to < agents.length && (to === from || width + GAP.length + widths[to]! <= MAX_COLUMNS)) {
      width += GAP.length + widths[to]!;
      to += 1;
    }
    const line = (label: string, cells: readonly string[]) => {
      const padded = cells.slice(from, to).map((cell, index) => cell.padEnd(widths[from + index]!));
      return `${[cut(label, labelWidth), ...padded].join(GAP).trimEnd()}\n`;
    };
    const head = line(
      "",
      agents.map((_, index) => String(index + 1)),
    );
    tables.push(head + rows.map((cells, row) => line(labels[row]!, cells.map(wordOf))).join(""));
    from = to;
  }
  const meanings = legendOf(rows);
  const columns = Math.max(TERM_COLUMNS, ...meanings.map(([effect]) => effect.length + GAP.length));
  const legend = meanings.map(([effect, meaning]) => {
    const lines = wrapToWidth(meaning, MAX_COLUMNS - columns);
    return lines.map((line, index) => `${(index === 0 ? effect : "").padEnd(columns)}${line}\n`).join("");
  });
  const intro = "Rows: the holder, with its priority. Columns: the challenger, by its row number.\n";
  return `${intro}\n${tables.join("\n")}\n${legend.join("")}`;
}

const cut = (label: string, width: number) =>
  label.length > width ? `${label.slice(0, width - 1)}…` : label.padEnd(width);
