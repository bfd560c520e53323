import { styleText } from "node:util";

const STYLES = {
  title: "bold",
  active: "green",
  ducked: "blue",
  paused: "yellow",
  waiting: "cyan",
  refused: "red",
  quiet: "dim",
} as const;
export type Style = keyof typeof STYLES;

/** Colours a text, or returns it unchanged. */
export type Paint = (style: Style, text: string) => string;

export const plain: Paint = (_, text) => text;

const coloured: Paint = (style, text) => styleText(STYLES[style], text, { validateStream: false });

/** Colours on a terminal, unless `NO_COLOR` is set. */
export function paintFor(
  screen: { isTTY?: boolean | undefined },
  env: Readonly<Record<string, string | undefined>>,
): Paint {
  return screen.isTTY === true && !env["NO_COLOR"] ? coloured : plain;
}
