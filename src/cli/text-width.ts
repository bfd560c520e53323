/** Graphemes that take two columns on a terminal: Chinese, Japanese and Korean script, full-width forms, emoji. */
const WIDE =
  /^(?:[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE10-\uFE19\uFE30-\uFE6F\uFF01-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}]|\p{Emoji_Presentation}|.\uFE0F)/u;
/** Characters without a column of their own. */
const NONE = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** The width of a text in columns. Characters of ambiguous width count as one. */
export function widthOf(text: string): number {
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += columnsOf(segment);
  return width;
}

/** The text in at most `columns` columns; a longer one is cut and ends with an ellipsis. */
export function cutToWidth(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let width = 1;
  let kept = "";
  for (const { segment } of graphemes.segment(text)) {
    width += columnsOf(segment);
    if (width > columns) break;
    kept += segment;
  }
  return columns > 0 ? `${kept}…` : "";
}

/** The text in exactly `columns` columns: cut, or padded with spaces. */
export function fitToWidth(text: string, columns: number): string {
  const cut = cutToWidth(text, columns);
  return cut + " ".repeat(columns - widthOf(cut));
}

/** The text in lines of at most `columns` columns, broken at spaces if there are any, else between characters. */
export function wrapToWidth(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  let width = 0;
  for (const { segment } of graphemes.segment(text)) {
    const next = columnsOf(segment);
    if (width + next > columns && line !== "") {
      const space = segment === " " ? line.length : line.lastIndexOf(" ");
      const end = space > 0 ? space : line.length;
      lines.push(line.slice(0, end));
      line = line.slice(end).trimStart();
      width = widthOf(line);
      if (line === "" && segment === " ") continue;
    }
    line += segment;
    width += next;
  }
  return line === "" ? lines : [...lines, line];
}

function columnsOf(grapheme: string): number {
  if (NONE.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}
