import { RE2JS, RE2JSSyntaxException } from "re2js";
import { z } from "zod";

/** The maximum size of a compiled pattern, in steps. It bounds the matching steps per character of a message. */
const MAX_STEPS = 5_000;
/** Unicode properties with their kind, as JavaScript writes them; the engine expects them without. */
const PROPERTY = /\\([pP])\{(?:Script|sc|General_Category|gc)=(\w+)\}/g;

/** The flag with which every pattern is compiled. */
export const IGNORES_CASE: number = RE2JS.CASE_INSENSITIVE;

/**
 * A pattern of the catalogue. It matches anywhere in a text, ignores case, and takes time linear in the text's length.
 * It is plain data, so that the thread that compiled it can pass it on.
 */
export interface Pattern {
  readonly source: string;
  /** In the notation of its engine. */
  readonly translated: string;
  /** Its size, in steps of its engine. */
  readonly steps: number;
}

/** The patterns that this thread has compiled. Those of another thread are compiled when they are first matched. */
const COMPILED = new WeakMap<Pattern, RE2JS>();

function compiled(pattern: Pattern): RE2JS {
  const known = COMPILED.get(pattern);
  if (known) return known;
  const made = RE2JS.compile(pattern.translated, IGNORES_CASE);
  COMPILED.set(pattern, made);
  return made;
}

export const isMatch = (pattern: Pattern, text: string): boolean => compiled(pattern).test(text);

/** The named groups of a pattern's first match that took part in it. */
export function groupsIn(pattern: Pattern, text: string): Record<string, string> {
  const matcher = compiled(pattern).matcher(text);
  const groups = matcher.find() ? Object.entries(matcher.getNamedGroups()) : [];
  return Object.fromEntries(groups.filter((group): group is [string, string] => group[1] !== null));
}

/**
 * Compile a pattern in JavaScript's notation. Its engine does not backtrack, so no pattern and no message can block the
 * node. Constructs that need backtracking (lookarounds, back-references) are refused.
 *
 * @throws SyntaxError with a reason that continues “the pattern …”
 */
export function compilePattern(source: string): Pattern {
  assertExpression(source);
  const pattern = compileLinear(source);
  if (pattern.steps > MAX_STEPS) throw new SyntaxError("is too large: reduce its repetitions");
  return pattern;
}

/** The maximum size of patterns that one message or sentence is matched against together: it bounds that work. */
const MAX_TOTAL_STEPS = 100_000;

export const areTooLarge = (patterns: readonly Pattern[]): boolean =>
  patterns.reduce((sum, { steps }) => sum + steps, 0) > MAX_TOTAL_STEPS;

export const TOO_LARGE_TOGETHER = "has patterns that are too large together: reduce their repetitions";

/** The schema of a pattern in a file. */
export const PatternText = z
  .string()
  .min(1)
  .max(1_024)
  .transform((source, context) => {
    try {
      return compilePattern(source);
    } catch (error) {
      context.issues.push({ code: "custom", input: source, message: (error as Error).message });
      return z.NEVER;
    }
  });

function assertExpression(source: string): void {
  try {
    new RegExp(source, "iu");
  } catch (error) {
    // `Invalid regular expression: /(/iu: Unterminated group` → `Unterminated group`.
    throw new SyntaxError(`is not a regular expression: ${(error as Error).message.split(": ").at(-1)}`);
  }
}

function compileLinear(source: string): Pattern {
  try {
    const translated = RE2JS.translateRegExp(source.replace(PROPERTY, "\\$1{$2}"));
    const made = RE2JS.compile(translated, IGNORES_CASE);
    const pattern = { source, translated, steps: made.programSize() };
    COMPILED.set(pattern, made);
    return pattern;
  } catch (error) {
    if (!(error instanceof RE2JSSyntaxException)) throw error;
    const what = error.message.split("`")[1] ?? source;
    const why = "patterns are matched in linear time, without lookarounds, back-references and counts over 1,000";
    throw new SyntaxError(`uses “${what}”, which is not supported: ${why}`);
  }
}
