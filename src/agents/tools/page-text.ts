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
    text += html.slice(at, open);
    if (lower.startsWith("<!--", open)) {
      const end = html.indexOf("-->", open);
      at = end < 0 ? html.length : end + 3;
      continue;
    }
    const close = html.indexOf(">", open);
    if (close < 0) {
      at = html.length;
      break;
    }
    const name = /^[a-z0-9]+/.exec(lower.slice(open + 1, open + 16))?.[0] ?? "";
    if (SILENT.includes(name)) {
      const end = lower.indexOf(`</${name}`, close);
      at = end < 0 ? html.length : end;
      continue;
    }
    text += BLOCK_END.test(html.slice(open + 1, open + 16)) ? "\n" : " ";
    at = close + 1;
  }
  text += html.slice(at);
  return decodeEntities(text)
    .split("\n")
    .map((line) => line.replace(/\s+/g, " ").trim())
    .filter((line) => line !== "")
    .join("\n");
}

function decodeEntities(text: string): string {
  return text.replace(ENTITY, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = decimal ? Number(decimal) : Number.parseInt(hex!, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "";
  });
}
