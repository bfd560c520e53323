/** The characters that models write as entities; the full list of HTML has two thousand. */
const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  apos: "'",
  copy: "©",
  gt: ">",
  hellip: "…",
  lt: "<",
  mdash: "—",
  nbsp: "\u00a0",
  ndash: "–",
  quot: '"',
  times: "×",
};
const MAX_CODE_POINT = 0x10_ff_ff;

/** Markdown's text with its entities as characters: `&lt;` is `<`. Unknown entities are left as they are. */
export const decodeEntities = (text: string): string =>
  text.replace(
    /&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,8}));/gi,
    (whole, decimal: string | undefined, hex: string | undefined, name: string) => {
      if (decimal === undefined && hex === undefined) return Object.hasOwn(NAMED, name) ? NAMED[name]! : whole;
      const code = decimal === undefined ? Number.parseInt(hex!, 16) : Number(decimal);
      return code > 0 && code <= MAX_CODE_POINT ? String.fromCodePoint(code) : whole;
    },
  );
