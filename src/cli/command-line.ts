import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import type { ZodType } from "zod";
import { parseDuration } from "../config/quantities.ts";
import { FLOOR_FORMS, FloorId } from "../protocol/ids.ts";
import { LANGUAGES } from "./language.ts";

/** The exit code for an invalid command line, and for an output that cannot be written. */
export const MISUSED = 2;
export const LOCAL_NODE = "http://127.0.0.1:3000";
export const TOKEN_NOTE =
  "INTERLOCK_TOKEN: the token or key to present, for a node that requires one; or INTERLOCK_TOKEN_FILE: a file with it.";

/**
 * What happens when stdout cannot be written. By default the process ends with a sentence, or quietly if the reader has
 * left (`… | head`).
 */
export interface Stdout {
  onError: (error: NodeJS.ErrnoException) => void;
}

/** What commands are added to. */
export interface CommandLine {
  /** Add a command. `notes`: lines below its options. */
  add: (name: string, summary: string, notes?: readonly string[]) => Command;
  /** Set the exit code of the process; undefined: the command ends the process itself. */
  end: (code: number | undefined) => void;
  stdout: Stdout;
}

/** The reason with which a command stops when nobody reads its output any more. */
export const NO_READER = new DOMException("the reader of stdout has left", "AbortError");

/**
 * Aborts at one of these signals, and when the reader of stdout has left: the command then ends what it began.
 * Another error of stdout ends the process.
 */
export function untilStopped(stdout: Stdout, ...signals: NodeJS.Signals[]): AbortSignal {
  const stopping = new AbortController();
  for (const signal of signals) process.once(signal, () => stopping.abort());
  const { onError } = stdout;
  stdout.onError = (error) => (error.code === "EPIPE" ? stopping.abort(NO_READER) : onError(error));
  return stopping.signal;
}

export const urlOption = () =>
  new Option("--url <url>", "the address of the node").default(LOCAL_NODE).argParser(nodeUrlOf);

export const languageOption = (about: string) => new Option("--lang <language>", about).choices([...LANGUAGES]);

/** A parser of names and texts, which are not empty. */
export function someText(text: string): string {
  if (text.trim() !== "") return text;
  throw new InvalidArgumentError("It is empty.");
}

/** A parser of whole numbers. */
export function numberFrom(min: number, max: number) {
  return (text: string): number => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`It is a number from ${min} to ${max}.`);
  };
}

/** A parser of durations, as in a catalogue: `30s`, `7d`. In ms. */
export function durationMs(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError("It is a whole number and ms, s, m, h or d, as in 30s.");
}

/** A parser that accepts what one of these schemas accepts. @param fault the sentence for anything else */
export const oneOf =
  (fault: string, ...schemas: readonly ZodType<string>[]) =>
  (text: string): string => {
    if (schemas.some((schema) => schema.safeParse(text).success)) return text;
    throw new InvalidArgumentError(fault);
  };

export const floorArgument = oneOf(`A floor is ${FLOOR_FORMS}.`, FloorId);

/** A parser of an option that may be repeated, and takes one value each time: the next word may be the file. */
export const collect = (value: string, others: readonly string[] = []): string[] => [...others, value];

export const nodeUrl = () => new Argument("[url]", "the address of the node").default(LOCAL_NODE).argParser(nodeUrlOf);

function nodeUrlOf(url: string): string {
  if (/^https?:\/\/./.test(url) && URL.canParse(url)) return url;
  throw new InvalidArgumentError(`A URL is like ${LOCAL_NODE}.`);
}
