import type { WordKey } from "./en.ts";

/** The text of a key, with its `{name}` placeholders replaced. */
export type Say = (key: WordKey, values?: Values) => string;

/** The values of placeholders. */
export type Values = Readonly<Record<string, string | number>>;

/** A sentence with its values. `{count|event|events}` is the word for a count of one, or for any other count. */
export function fill(sentence: string, values?: Values): string {
  if (!values) return sentence;
  return sentence.replace(
    /\{([a-z]+)(?:\|([^|}]*)\|([^|}]*))?\}/gi,
    (whole, name: string, one: string | undefined, other: string | undefined) => {
      const value = values[name];
      if (value === undefined) return whole;
      if (one === undefined || other === undefined) return String(value);
      return String(value) === "1" ? one : other;
    },
  );
}

/** Two parts of a text: after Chinese punctuation there is no space, because the sign includes it. */
export const joined = (first: string, second: string): string =>
  first === "" || /[：。，！？]$/.test(first) ? first + second : `${first} ${second}`;

/** A space between Chinese and Latin letters or digits, because names of agents may be either. */
export const spaced = (sentence: string): string =>
  sentence.replace(/(?<=\p{Script=Han})(?=[A-Za-z0-9])/gu, " ").replace(/(?<=[A-Za-z0-9])(?=\p{Script=Han})/gu, " ");
