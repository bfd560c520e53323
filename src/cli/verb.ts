import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { suggest } from "../config/nearest.ts";
import { wrapToWidth } from "./text-width.ts";

/** The exit code for an invalid command line. */
export const MISUSED = 2;
const WIDTH = 100;

/** A command of `interlock`. */
export interface Verb {
  name: string;
  /** The arguments after the name, as in `[FILE]`. */
  synopsis: string;
  /** One sentence. */
  summary: string;
  /** Further paragraphs of `--help`; a paragraph may be a term with its explanation. */
  details: () => (string | [term: string, explanation: string])[];
  /** @returns the exit code; undefined if the command ends the process itself */
  run: (args: readonly string[]) => Promise<number | undefined>;
}

/** The text of `interlock <name> --help`. */
export function helpOf({ name, synopsis, summary, details }: Verb): string {
  const paragraphs = details().map((each) =>
    typeof each === "string" ? wrap(each, "") : `${each[0]}\n${wrap(each[1], "    ")}`,
  );
  return [`interlock ${name} ${synopsis}`.trimEnd(), wrap(summary, ""), ...paragraphs].join("\n\n").concat("\n");
}

const wrap = (text: string, indent: string): string =>
  wrapToWidth(text, WIDTH - indent.length)
    .map((line) => `${indent}${line}`)
    .join("\n");

/** Read the flags and arguments of a command; `fault`: a sentence for an unknown flag or a missing value. */
export function readFlags<const Flags extends ParseArgsOptionsConfig>(args: readonly string[], flags: Flags) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: true });
  } catch (error) {
    const message = (error as Error).message.split("\n", 1)[0]!;
    const [, unknown] = /^Unknown option '([^' ]+)/.exec(message) ?? [];
    return { fault: unknown === undefined ? message : unknownFlag(unknown, Object.keys(flags)) };
  }
}

function unknownFlag(flag: string, known: readonly string[]): string {
  const flags = [...known, "help"].map((name) => `--${name}`);
  return `${flag} is not a flag of this command${suggest(flag, flags)}`;
}
