import { RE2JS, RE2JSSyntaxException } from "re2js";

/** The maximum size of a compiled pattern, in steps. It bounds the matching steps per character of a message. */
const MAX_STEPS = 5_000;
/** Unicode properties with their kind, as JavaScript writes them; the engine expects them without. */
const PROPERTY = /\\([pP])\{(?:Script|sc|General_Category|gc)=(\w+)\}/g;

/**
 * A pattern of the catalogue. It matches anywhere in a text, ignores case, and takes time linear in the text's length.
 */
export interface Pattern {
  test(text: string): boolean;
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
  if (pattern.programSize() > MAX_STEPS) throw new SyntaxError("is too large: reduce its repetitions");
  return pattern;
}

function assertExpression(source: string): void {
  try {
    new RegExp(source, "iu");
  } catch (error) {
    // `Invalid regular expression: /(/iu: Unterminated group` → `Unterminated group`.
    throw new SyntaxError(`is not a regular expression: ${(error as Error).message.split(": ").at(-1)}`);
  }
}

function compileLinear(source: string): RE2JS {
  try {
    const translated = RE2JS.translateRegExp(source.replace(PROPERTY, "\\$1{$2}"));
    return RE2JS.compile(translated, RE2JS.CASE_INSENSITIVE);
  } catch (error) {
    if (!(error instanceof RE2JSSyntaxException)) throw error;
    const what = error.message.split("`")[1] ?? source;
    const why = "patterns are matched in linear time, without lookarounds, back-references and counts over 1,000";
    throw new SyntaxError(`uses “${what}”, which is not supported: ${why}`);
  }
}
