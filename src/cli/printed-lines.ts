import { visibleJson, withoutUnseen } from "../shared/text.ts";
import { splitAtColours, withTerminalCodes } from "./paint.ts";

/** The destination of lines: `process.stdout`, or a recorder in tests. `isTTY` is true for a terminal. */
export interface Output {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
}

const BREAKING = /[\p{Cc}\p{Zl}\p{Zp}]+/gu;

/**
 * Print lines. Their texts may come from anywhere: no character of them moves the cursor, begins another line, hides or
 * turns the direction of the text around it. Everything that a command prints passes here, `printJson` or a chat's
 * screen.
 */
export function printLines(out: Output, lines: readonly string[]): void {
  const shown = out.isTTY === true ? lines.map(colouredLine) : lines.map(bareLine);
  out.write(`${shown.join("\n")}\n`);
}

/** Print a value as JSON. Characters that are not seen are escapes. */
export function printJson(out: Output, value: unknown): void {
  out.write(`${visibleJson(JSON.stringify(value, undefined, 2))}\n`);
}

/** Print why a command does not go on: a sentence, and lines with what it is about. */
export function complain(err: Output, ...lines: readonly string[]): void {
  printLines(err, [`interlock: ${lines[0]}`, ...lines.slice(1)]);
}

/** `1 session`, `2 sessions`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** The text as one line of a terminal. */
export const printableLine = (text: string): string => withoutUnseen(text.replace(BREAKING, " "));

/** The text as lines of a terminal. */
export const printableText = (text: string): string => text.split("\n").map(printableLine).join("\n");

const colouredLine = (line: string): string =>
  splitAtColours(line)
    .map((part, index) => (index % 2 === 1 ? withTerminalCodes(part) : printableLine(part)))
    .join("");

/** On anything but a terminal, no colour is printed. */
const bareLine = (line: string): string =>
  splitAtColours(line)
    .filter((_, index) => index % 2 === 0)
    .map(printableLine)
    .join("");
