import type { WordKey } from "./en.ts";

/** The text of a key, with its `{name}` placeholders replaced. */
export type Say = (key: WordKey, values?: Values) => string;

/** The values of placeholders. */
export type Values = Readonly<Record<string, string | number>>;

export function fill(sentence: string, values?: Values): string {
  if (!values) return sentence;
  return sentence.replace(/\{([a-z]+)\}/gi, (whole, name: string) => String(values[name] ?? whole));
}

/** A space between Chinese and Latin letters or digits, because names of agents may be either. */
export const spaced = (sentence: string): string =>
  sentence.replace(/(?<=\p{Script=Han})(?=[A-Za-z0-9])/gu, " ").replace(/(?<=[A-Za-z0-9])(?=\p{Script=Han})/gu, " ");
