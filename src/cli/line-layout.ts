import type { NarratedLine } from "./narration.ts";
import type { Paint } from "./paint.ts";
import { cutToWidth, fitToWidth, widthOf, wrapToWidth } from "./text-width.ts";

export interface LayoutOptions {
  /** The width of a line, in columns. */
  width: number;
  /** The maximum number of lines for one text. */
  maxLines: number;
  /** A time in ms since 1970 as text, always equally wide. */
  timeOf: (at: number) => string;
  nameOf: (agentId: string) => string;
  /** The maximum number of columns of an agent's name. Default: 24. */
  maxName?: number;
  paint: Paint;
}

/** Lay out lines as time, agent and text. */
export function layOut(
  lines: readonly NarratedLine[],
  { width, maxLines, timeOf, nameOf, maxName = 24, paint }: LayoutOptions,
): string[] {
  const nameColumns = Math.min(maxName, Math.max(0, ...lines.map(({ agentId }) => widthOf(nameOf(agentId)))));
  return lines.flatMap(({ at, agentId, mark, style, text }) => {
    const time = timeOf(at);
    const indent = " ".repeat(time.length + nameColumns + 4);
    const room = width - indent.length - 2;
    const head = `${paint("quiet", time)}  ${fitToWidth(nameOf(agentId), nameColumns)}  `;
    const pieces = wrapToWidth(cutToWidth(text.trim(), room * maxLines), room);
    return pieces.map((piece, index) => {
      const marked = index === 0 ? `${mark} ${piece}` : `  ${piece}`;
      return (index === 0 ? head : indent) + (style ? paint(style, marked) : marked);
    });
  });
}
