import type { WordKey } from "./en.ts";

/** The words of a key, with its `{name}`s filled in. */
export type Say = (key: WordKey, values?: Values) => string;

/** What stands for `{name}` in a sentence. */
export type Values = Readonly<Record<string, string | number>>;

export function fill(sentence: string, values: Values = {}): string {
  return sentence.replace(/\{([a-z]+)\}/gi, (whole, name: string) => String(values[name] ?? whole));
}

/** Between Chinese and Latin letters or digits stands a space: names of agents may be either. */
export const spaced = (sentence: string): string =>
  sentence.replace(/(?<=\p{Script=Han})(?=[A-Za-z0-9])/gu, " ").replace(/(?<=[A-Za-z0-9])(?=\p{Script=Han})/gu, " ");
