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
 * Two of the same source are equal.
 */
export class Pattern {
  readonly source: string;
  /** In the notation of its engine. */
  readonly translated: string;
  readonly #compiled: RE2JS;

  /** `compilePattern` makes it. */
  constructor(source: string, translated: string) {
    this.source = source;
    this.translated = translated;
    this.#compiled = RE2JS.compile(translated, IGNORES_CASE);
  }

  /** Its size, in steps of its engine. */
  get steps(): number {
    return this.#compiled.programSize();
  }

  test(text: string): boolean {
    return this.#compiled.test(text);
  }

  /** The named groups of its first match that took part in it. */
  groupsIn(text: string): Record<string, string> {
    const matcher = this.#compiled.matcher(text);
    const groups = matcher.find() ? Object.entries(matcher.getNamedGroups()) : [];
    return Object.fromEntries(groups.filter((group): group is [string, string] => group[1] !== null));
  }
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
    return new Pattern(source, RE2JS.translateRegExp(source.replace(PROPERTY, "\\$1{$2}")));
  } catch (error) {
    if (!(error instanceof RE2JSSyntaxException)) throw error;
    const what = error.message.split("`")[1] ?? source;
    const why = "patterns are matched in linear time, without lookarounds, back-references and counts over 1,000";
    throw new SyntaxError(`uses “${what}”, which is not supported: ${why}`);
  }
}
