/** The key `routing`: which agent hears a sentence that names none. What it means: docs/use/routing.md. */

import { RE2Set } from "re2js";
import { z } from "zod";
import { AgentId } from "../../protocol/ids.ts";
import { duration } from "../quantities.ts";
import { areTooLarge, groupsIn, IGNORES_CASE, type Pattern, PatternText, TOO_LARGE_TOGETHER } from "./pattern.ts";

const MAX_ROWS = 1_000;
/** Patterns of all rows. One automaton matches them all in one pass, so their number costs memory and no time. */
const MAX_PATTERNS = 1_000;
/** The beginning of a sentence that patterns see, in UTF-16 units: nobody says more at once. */
export const MAX_SENTENCE = 1_000;

/** Around a sentence that an ignored pattern must fit as a whole. */
const EDGE = "[\\s\\p{P}\\p{S}]*";

const Patterns = z.union([PatternText.transform((one) => [one]), z.array(PatternText).min(1).max(MAX_PATTERNS)]);

const RowFields = z.strictObject({
  says: Patterns.optional().describe("Patterns of what is said, as in `match`."),
  agent: AgentId.optional().describe("Who hears it. Without another key: every sentence that comes this far."),
  ignore: z.literal(true).optional().describe("Nobody hears what consists of one of `says` alone."),
  continues: duration({ min: "1s", max: "1d" })
    .optional()
    .describe("The session that spoke last hears it, if it asked, or was spoken to, within this time."),
  ask: AgentId.optional().describe("An agent that answers with the name of one of `among`."),
  among: z.array(AgentId).min(1).max(100).optional(),
  within: duration({ min: "10ms", max: "30s" }).optional().describe("Later the next row decides. Default: 800ms."),
});

const WITHIN_MS = 800;

export type RoutingRow =
  | { readonly kind: "says"; readonly patterns: readonly Pattern[]; readonly agent: AgentId }
  | { readonly kind: "ignore"; readonly patterns: readonly Pattern[] }
  | { readonly kind: "continues"; readonly withinMs: number }
  | { readonly kind: "ask"; readonly agent: AgentId; readonly among: readonly AgentId[]; readonly withinMs: number }
  | { readonly kind: "agent"; readonly agent: AgentId };

/** The keys of each kind of row, the one that names the kind first. */
const KINDS = [
  ["continues"],
  ["ask", "among", "within"],
  ["says", "ignore"],
  ["says", "agent"],
  ["agent"],
] as const satisfies (keyof z.infer<typeof RowFields>)[][];

const FORMS =
  "must be one of: says with agent, says with ignore: true, continues, ask with among (and within), or agent alone";

function rowOf(row: z.infer<typeof RowFields>): RoutingRow | undefined {
  const { says, agent, ignore, continues, ask, among, within = WITHIN_MS } = row;
  const given = Object.keys(row).filter((key) => row[key as keyof typeof row] !== undefined);
  const isOneKind = KINDS.some((keys) => given.every((key) => (keys as readonly string[]).includes(key)));
  if (!isOneKind) return undefined;
  if (continues !== undefined) return { kind: "continues", withinMs: continues };
  if (ask !== undefined && among) return { kind: "ask", agent: ask, among, withinMs: within };
  if (says && ignore) return { kind: "ignore", patterns: says };
  if (says && agent !== undefined) return { kind: "says", patterns: says, agent };
  return agent !== undefined && !says ? { kind: "agent", agent } : undefined;
}

const Row = RowFields.transform((row, context): RoutingRow => {
  const read = rowOf(row);
  if (read) return read;
  context.issues.push({ code: "custom", input: row, message: FORMS });
  return z.NEVER;
});

const patternsOf = (row: RoutingRow): readonly Pattern[] => ("patterns" in row ? row.patterns : []);

/** The schema of the key. */
export const RoutingRows = z
  .array(Row)
  .max(MAX_ROWS)
  .refine((rows) => rows.flatMap(patternsOf).length <= MAX_PATTERNS, `must have at most ${MAX_PATTERNS} patterns`)
  .refine((rows) => !areTooLarge(rows.flatMap(patternsOf)), TOO_LARGE_TOGETHER);

export interface SentenceMatch {
  /** By row, from 0: the first of its patterns that fits. */
  readonly byRow: ReadonlyMap<number, Pattern>;
  groupsOf(pattern: Pattern): Record<string, string>;
}

/** The rows of `routing`, with one automaton for their patterns. */
export class Routing {
  readonly rows: readonly RoutingRow[];
  /** The row and the pattern of each entry of the automaton. */
  readonly #entries: readonly { row: number; pattern: Pattern }[];
  readonly #set: RE2Set | undefined;

  constructor(rows: readonly RoutingRow[]) {
    this.rows = rows;
    this.#entries = rows.flatMap((row, index) => patternsOf(row).map((pattern) => ({ row: index, pattern })));
    if (this.#entries.length === 0) return;
    this.#set = new RE2Set(RE2Set.UNANCHORED, IGNORES_CASE);
    for (const { row, pattern } of this.#entries) {
      const { translated } = pattern;
      this.#set.add(rows[row]!.kind === "ignore" ? `\\A${EDGE}(?:${translated})${EDGE}\\z` : translated);
    }
    this.#set.compile();
  }

  match(sentence: string): SentenceMatch {
    const text = sentence.slice(0, MAX_SENTENCE);
    const byRow = new Map<number, Pattern>();
    const found: number[] = this.#set?.match(text) ?? [];
    for (const entry of found.toSorted((one, other) => one - other)) {
      const { row, pattern } = this.#entries[entry]!;
      const isCut = sentence.length > MAX_SENTENCE && this.rows[row]!.kind === "ignore";
      if (!isCut && !byRow.has(row)) byRow.set(row, pattern);
    }
    return { byRow, groupsOf: (pattern) => groupsIn(pattern, text) };
  }
}
