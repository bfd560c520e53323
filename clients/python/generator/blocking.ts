/** What the blocking client has in place of each word of the asynchronous one, in this order. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/\bAsyncGenerator, Callable\b/g, "Callable, Generator"],
  [/\bAsyncGenerator\[(\w+), None\]/g, "Generator[$1, None, None]"],
  [/\basync (?=(?:def|for|with) )/g, ""],
  [/\bawait /g, ""],
  [/\bAsync(?=[A-Z])/g, ""],
  [/\b_async_(?=io\b)/g, "_blocking_"],
  [/\b_async_(?=\w)/g, "_"],
  [/\b__a(?=(?:enter|exit|iter|next)__)/g, "__"],
  [/\bStopAsyncIteration\b/g, "StopIteration"],
  [/\baclose\b/g, "close"],
];

/** The source of a module of the blocking client, made of that of the asynchronous one. */
export function blockingSource(name: string, source: string): string {
  const head = `# Written from ${name} by \`npm run build:python\`. Change that file, not this one.\n`;
  return head + WORDS.reduce((text, [word, replacement]) => text.replace(word, replacement), source);
}
