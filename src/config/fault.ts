/** Something wrong in a file, told to the person who edits it. */
export interface Fault {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  /** Where in the file's tree, as in `agents[2].priority`; empty for the file as a whole. */
  readonly path: string;
  /** Reads on from the path: `must be at most 100, not 120`. */
  readonly message: string;
}

/** A file with more faults than this is not the file that was meant: the rest is not told. */
export const MAX_FAULTS = 100;

/** More steps than any place of the catalogue is deep. */
const MAX_STEPS = 16;

/** `["agents", 2, "a b"]` → `agents[2]["a b"]`. */
export function describePath(path: readonly PropertyKey[]): string {
  const steps = path
    .slice(0, MAX_STEPS)
    .map((step, index) => {
      if (typeof step === "number") return `[${step}]`;
      const name = String(step);
      if (!/^[\p{L}\p{N}_-]{1,128}$/u.test(name)) return `[${JSON.stringify(name.slice(0, 128))}]`;
      return index === 0 ? name : `.${name}`;
    })
    .join("");
  return path.length > MAX_STEPS ? `${steps}…` : steps;
}

/** What somebody wrote, as a sentence names it: never long, and nothing a terminal would obey. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}

/** As a person reads them: from the top of the file, one for each place. */
export function sortFaults(faults: readonly Fault[]): Fault[] {
  const sorted = faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const seen = new Set<string>();
  const distinct = sorted.filter(({ line, column, path }) => {
    const place = `${line}:${column}:${path}`;
    return !seen.has(place) && seen.add(place);
  });
  if (distinct.length <= MAX_FAULTS) return distinct;
  const { line, column } = distinct[MAX_FAULTS]!;
  return [...distinct.slice(0, MAX_FAULTS), { line, column, path: "", message: "there are more faults from here on" }];
}
