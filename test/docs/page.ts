import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

export const root = resolve(import.meta.dirname, "../..");

/** A fenced block: the text after the fence, and its lines. */
export interface Block {
  info: string;
  text: string;
}

/** A parsed page of the documentation. */
export interface Page {
  /** Relative to the root, with slashes. */
  path: string;
  text: string;
  /** Without fenced blocks. */
  prose: string;
  blocks: Block[];
  headings: { level: number; text: string }[];
}

const FENCE = /^```([^\n]*)\n([\s\S]*?)^```$/gm;

export function readPage(path: string): Page {
  const text = readFileSync(join(root, path), "utf8");
  const blocks = [...text.matchAll(FENCE)].map(([, info, inside]) => ({ info: info!.trim(), text: inside! }));
  const prose = text.replace(FENCE, "");
  const headings = [...prose.matchAll(/^(#+) (.+)$/gm)].map(([, marks, words]) => ({
    level: marks!.length,
    text: words!,
  }));
  return { path, text, prose, blocks, headings };
}

/** Every page of the documentation. */
export function readPages(): Page[] {
  const inDocs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).map((name) => `docs/${name}`);
  const atRoot = readdirSync(root).filter((name) => name.endsWith(".md"));
  return [...atRoot, ...inDocs.filter((name) => name.endsWith(".md")).sort()].map((path) =>
    readPage(relative(root, join(root, path))),
  );
}

/** The anchor of a heading, as GitHub makes it. */
export function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M} _-]/gu, "")
    .replaceAll(" ", "-");
}

/** The cells below a table's head, for each table of the page whose head begins with these cells. */
export function tablesOf({ prose }: Page, ...head: string[]): string[][][] {
  const tables = prose.match(/(^\|.*\|$\n)+/gm) ?? [];
  return tables
    .map((table) => table.trimEnd().split("\n").map(cellsOf))
    .filter(([first]) => head.every((cell, index) => first![index] === cell))
    .map((rows) => rows.slice(2));
}

/** Cells are separated by bars; a bar within a cell is escaped. */
function cellsOf(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** The text in backticks. */
export const codeOf = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code!);

/** Whether a text mentions a name as a whole word. */
export const mentions = (text: string, name: string): boolean =>
  new RegExp(`(?<![\\w-])${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\w-])`).test(text);
