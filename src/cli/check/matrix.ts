import { EMPTY_FLOOR, restrictionOn } from "../../actors/floor/floor-claims.ts";
import { giveFront, letBeneath } from "../../actors/floor/rearrangement.ts";
import type { AgentEntry, Catalog } from "../../config/catalog/catalog.ts";
import type { Decision } from "../../protocol/decision.ts";
import { wrapToWidth } from "../text-width.ts";
import { type Circumstances, describe, settle } from "./circumstances.ts";
import { decideAlone } from "./sharing-risks.ts";

export const MATRIX_FORMATS = ["text", "markdown", "json"] as const;
export type MatrixFormat = (typeof MATRIX_FORMATS)[number];

/** What the challenger's request does: to the holder (`pauses`, `ducks`, `replaces`), or to itself. */
type Effect = "pauses" | "ducks" | "replaces" | "beneath" | "waits" | "refused" | "restricted";

export interface Cell {
  holder: string;
  challenger: string;
  effect: Effect;
  /** The level of the session that is heard beneath the other, in dB. */
  level?: number;
  rule: number;
  reason: Decision["reason"];
}

/** The most agents that a matrix shows: it has a cell for each pair. */
export const MAX_MATRIX_AGENTS = 100;
const MAX_COLUMNS = 80;
const GAP = "  ";
/** Columns of the words in the legend. */
const TERM_COLUMNS = 10;

const LEGEND: Readonly<Record<Effect, string>> = {
  pauses: "the challenger gets the floor, and the holder is paused",
  ducks: "the challenger gets the floor, and the holder continues beneath it, quieter by these dB",
  replaces: "the challenger gets the floor, and the holder ends",
  beneath: "the challenger starts beneath the holder, quieter by this many dB",
  waits: "the challenger waits for the floor",
  refused: "the challenger is refused, and the holder notices nothing",
  restricted: "the flags do not let the holder be heard",
};

export interface Matrix {
  /** The enabled agents, in the order of the file, with their priorities in the circumstances. */
  agents: { id: string; priority: number }[];
  /** A row for each holder, with a cell for each challenger. */
  rows: Cell[][];
}

/**
 * Decide for each pair of agents: a session of one requests the floor while a session of the other holds it, alone.
 * Without circumstances it uses the agents' own priorities, without rules and users' overrides.
 */
export function matrixOf(catalog: Catalog, circumstances: Circumstances = {}): Matrix {
  const enabled = [...catalog.agents.values()].filter((agent) => agent.enabled);
  const settled = settle(catalog, circumstances);
  return {
    agents: enabled.map((agent) => ({ id: agent.id, priority: settled.priorityOf(agent) })),
    rows: enabled.map((holder) => enabled.map((challenger) => meet(holder, challenger, settled))),
  };
}

/** The matrix as text. */
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

function meet(holder: AgentEntry, challenger: AgentEntry, { claim, rules }: ReturnType<typeof settle>): Cell {
  const held = claim(holder, "holder", 1);
  const asks = claim(challenger, "challenger", 2);
  const names = { holder: holder.id, challenger: challenger.id };
  const restriction = restrictionOn(held, rules);
  if (restriction && restriction.others !== "finish") {
    return { ...names, rule: 9, reason: "restricted", effect: "restricted" };
  }
  const floor = { ...EMPTY_FLOOR, holder: held };
  const { outcome, reason, rule, level } = decideAlone(held, asks, challenger, rules);
  const about = { ...names, rule: rule!, reason };
  if (outcome !== "granted") return { ...about, effect: outcome === "queued" ? "waits" : "refused" };
  const { moves } = (reason === "beneath" ? letBeneath : giveFront)(floor, asks, rules);
  const move = moves.find(({ claim: moved }) => moved.sessionId === held.sessionId);
  if (move?.becomes === "ducked") return { ...about, effect: "ducks", level: move.level };
  if (move?.becomes === "archived") return { ...about, effect: "replaces" };
  if (move?.becomes === "paused") return { ...about, effect: "pauses" };
  return { ...about, effect: "beneath", level: level ?? 0 };
}

/** What a cell shows, as in `ducks -14`. */
export const wordOf = ({ effect, level }: Cell): string => (level === undefined ? effect : `${effect} ${level}`);

/** The words that appear in the matrix, each with its meaning. */
function legendOf(rows: readonly Cell[][]): [Effect, string][] {
  const used = new Set(rows.flat().map(({ effect }) => effect));
  return (Object.entries(LEGEND) as [Effect, string][]).filter(([effect]) => used.has(effect));
}

function markdownOf(agents: Matrix["agents"], rows: readonly Cell[][]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  const names = agents.map(({ id }) => `\`${id}\``);
  const head = line(["holder ↓ challenger →", ...names]) + line(Array(agents.length + 1).fill("---"));
  const body = rows.map((cells, index) => line([names[index]!, ...cells.map(wordOf)])).join("");
  const legend = legendOf(rows).map(([effect, meaning]) => `- ${effect}: ${meaning}\n`);
  return `${head}${body}\n${legend.join("")}`;
}

/** Split the columns into blocks of at most 80 characters, below each other, each with all rows. */
function textOf(agents: Matrix["agents"], rows: readonly Cell[][]): string {
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
  const legend = legendOf(rows).map(([effect, meaning]) => {
    const lines = wrapToWidth(meaning, MAX_COLUMNS - TERM_COLUMNS);
    return lines.map((line, index) => `${(index === 0 ? effect : "").padEnd(TERM_COLUMNS)}${line}\n`).join("");
  });
  const intro = "Rows: the holder, with its priority. Columns: the challenger, by its row number.\n";
  return `${intro}\n${tables.join("\n")}\n${legend.join("")}`;
}

const cut = (label: string, width: number) =>
  label.length > width ? `${label.slice(0, width - 1)}…` : label.padEnd(width);
