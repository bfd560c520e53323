import { randomInt } from "node:crypto";
import { inspect } from "node:util";

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

/**
 * Begins the codes of this process's colours. No text from outside has its number, so none of the codes in it is taken
 * for a colour.
 */
const OWN = `${String.fromCharCode(27)}[${randomInt(1_000_000_000, 2_000_000_000)};`;

/** Every other part is the code of a colour. */
export const splitAtColours = (line: string): string[] => line.split(OWN_CODE);
const OWN_CODE = new RegExp(`(${OWN.replace("[", "\\[")}[0-9]+m)`);

/** The text with its colours as a terminal takes them. */
export const withTerminalCodes = (text: string): string => text.replaceAll(OWN, OWN.slice(0, 2));

const coloured: Paint = (style, text) => {
  const [open, close] = inspect.colors[STYLES[style]]!.map((code) => `${OWN}${code}m`) as [string, string];
  // Where the colour of a part ends, this one goes on.
  return `${open}${text.replaceAll(close, close + open)}${close}`;
};

/** Colours on a terminal, unless `NO_COLOR` is set. */
export function paintFor(
  screen: { isTTY?: boolean | undefined },
  env: Readonly<Record<string, string | undefined>>,
): Paint {
  return screen.isTTY === true && !env["NO_COLOR"] ? coloured : plain;
}
