import { styleText } from "node:util";

const STYLES = {
  title: "bold",
  active: "green",
  paused: "yellow",
  waiting: "cyan",
  refused: "red",
  quiet: "dim",
} as const;
export type Style = keyof typeof STYLES;

/** Gives a text its colour, or leaves it as it is. */
export type Paint = (style: Style, text: string) => string;

export const plain: Paint = (_, text) => text;

const coloured: Paint = (style, text) => styleText(STYLES[style], text, { validateStream: false });

/** Colours are for terminals, and for people who did not set `NO_COLOR`. */
export function paintFor(
  screen: { isTTY?: boolean | undefined },
  env: Readonly<Record<string, string | undefined>>,
): Paint {
  return screen.isTTY === true && !env["NO_COLOR"] ? coloured : plain;
}
