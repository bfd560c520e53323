/** A fault in a file, for the person who edits it. */
export interface Fault {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  /** The path in the file's tree, as in `agents[2].priority`; empty for the file as a whole. */
  readonly path: string;
  /** Continues a sentence that begins with the path: `must be at most 100, not 120`. */
  readonly message: string;
}

/** A fault of a parsed value, before its line and column are found. */
export interface ValueFault {
  readonly path: readonly (string | number)[];
  /** Continues a sentence that begins with the path. */
  readonly message: string;
}

/** The maximum number of reported faults: a file with more is probably the wrong file. */
export const MAX_FAULTS = 100;

/** The maximum number of steps in a described path; no path in a catalogue is that long. */
const MAX_PATH_STEPS = 16;

/** `["agents", 2, "a b"]` → `agents[2]["a b"]`. */
export function describePath(path: readonly PropertyKey[]): string {
  const steps = path
    .slice(0, MAX_PATH_STEPS)
    .map((step, index) => {
      if (typeof step === "number") return `[${step}]`;
      const name = String(step);
      if (!/^[\p{L}\p{N}_-]{1,128}$/u.test(name)) return `[${JSON.stringify(name.slice(0, 128))}]`;
      return index === 0 ? name : `.${name}`;
    })
    .join("");
  return path.length > MAX_PATH_STEPS ? `${steps}…` : steps;
}

/** A fault as a line of output: `agents.yaml:3:7 agents[0].priority: must be at most 100, not 120`. */
export function faultLine(file: string, { line, column, path, message }: Fault): string {
  return `${file}:${line}:${column} ${path === "" ? "" : `${path}: `}${message}`;
}

/** Quote user text for a sentence: shortened, and with control characters escaped. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}

/** Sort faults from the top of the file, one per line, column and path, at most `MAX_FAULTS`. */
export function sortFaults(faults: readonly Fault[]): Fault[] {
  const sorted = faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const seen = new Set<string>();
  const distinct = sorted.filter(({ line, column, path }) => {
    const lineColumn = `${line}:${column}:${path}`;
    return !seen.has(lineColumn) && seen.add(lineColumn);
  });
  if (distinct.length <= MAX_FAULTS) return distinct;
  const { line, column } = distinct[MAX_FAULTS]!;
  return [...distinct.slice(0, MAX_FAULTS), { line, column, path: "", message: "there are more faults from here on" }];
}
