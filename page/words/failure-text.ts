import { en, type WordKey } from "./en.ts";
import type { Say, Values } from "./sentence.ts";

/** An error of the server, of the client or of the page itself. */
export interface ShownFailure {
  message: string;
  code?: string | undefined;
  facts?: { issues?: { message: string }[] };
}

/** An error that the page found, in words of its own. */
export class PageError extends Error {
  readonly key: WordKey;
  readonly values: Values;

  constructor(key: WordKey, values: Values = {}) {
    super(key);
    this.name = "PageError";
    this.key = key;
    this.values = values;
  }
}

/** Codes that the client gives itself: their messages say no more than the codes. */
const OF_CLIENT: ReadonlySet<string> = new Set(["unreachable", "unexpected_answer"]);

/**
 * A failure in the page's language, by its code. What the server says beyond the code, it says in English: it is added.
 * A failure without a known code, such as an agent's own words, stays as it is.
 */
export function failureText(failure: ShownFailure, say: Say): string {
  if (failure instanceof PageError) return say(failure.key, failure.values);
  const { message, facts, code = codeOf(message) } = failure;
  const issues = (facts?.issues ?? []).map((issue) => issue.message).filter((issue) => !message.includes(issue));
  const key = `error.${code}`;
  if (!isKey(key)) return [message, ...issues].join(" ");
  const sentence = say(key);
  const isMore = message !== en[key] && !OF_CLIENT.has(String(code));
  const text = isMore ? say("failure.more", { sentence, more: message }) : sentence;
  return issues.length > 0 ? say("failure.issues", { text, issues: issues.join(" ") }) : text;
}

/** Messages of an agent that failed have the text of a code, and no code. */
const codeOf = (message: string): string | undefined =>
  Object.entries(en)
    .find(([key, text]) => key.startsWith("error.") && text === message)?.[0]
    .slice("error.".length);

const isKey = (key: string): key is WordKey => Object.hasOwn(en, key);
