import { toOneLine } from "../../shared/text.ts";

/** Elements whose content is not readable text. */
const SILENT = ["script", "style", "noscript", "template", "svg", "head"];
const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
};
const ENTITY = /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,8}));/gi;
const BLOCK_END = /^\/?(p|div|br|li|tr|h[1-6]|section|article|ul|ol|table|blockquote|pre)\b/i;

/** The text of an HTML page, in time linear in its length. */
export function textOfPage(html: string): string {
  // Compare ASCII letters only, because other letters may change their length with their case.
  const lower = html.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  let text = "";
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf("<", at);
    if (open < 0) break;
    const mark = markAt(html, lower, open);
    text += html.slice(at, open) + mark.gap;
    at = mark.end;
  }
  text += html.slice(at);
  return decodeEntities(text)
    .split("\n")
    .map(toOneLine)
    .filter((line) => line !== "")
    .join("\n");
}

/** A tag, a comment, or a silent element up to its end tag. A comment or element that does not end takes the rest. */
interface Mark {
  end: number;
  /** What stands for it in the text. */
  gap: "" | " " | "\n";
}

function markAt(html: string, lower: string, open: number): Mark {
  if (lower.startsWith("<!--", open)) return { end: indexAfter(html, "-->", open), gap: "" };
  const end = indexAfter(html, ">", open);
  const name = /^[a-z0-9]+/.exec(lower.slice(open + 1, open + 16))?.[0] ?? "";
  if (SILENT.includes(name)) return { end: indexOrEnd(lower, `</${name}`, end), gap: "" };
  return { end, gap: BLOCK_END.test(html.slice(open + 1, open + 16)) ? "\n" : " " };
}

function indexOrEnd(text: string, wanted: string, from: number): number {
  const index = text.indexOf(wanted, from);
  return index < 0 ? text.length : index;
}

const indexAfter = (text: string, wanted: string, from: number): number =>
  Math.min(text.length, indexOrEnd(text, wanted, from) + wanted.length);

function decodeEntities(text: string): string {
  return text.replace(ENTITY, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = decimal ? Number(decimal) : Number.parseInt(hex!, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "";
  });
}
