import { createRequire } from "node:module";
import { type DestinationStream, pino } from "pino";
import type { Logger } from "../shared/ports/logger.ts";
import { LineOutput } from "./line-output.ts";

const WARN = 40;

/**
 * A log on stderr, so that stdout carries only the command's output. It writes JSON lines, or readable lines on a
 * terminal. Facts must not contain secrets; fields that could hold one by accident are redacted.
 */
export function createLog(level: string, destination: DestinationStream = toStderr(), node?: string): Logger {
  return pino(
    {
      level,
      base: node === undefined ? null : { node },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: ["*.authorization", "*.cookie", "headers", "req", "res"],
    },
    destination,
  );
}

/** The process's outputs. Each exists once, because it counts the lines it dropped. */
export const STDOUT = new LineOutput("stdout");
const STDERR = new LineOutput("stderr", reportDropped);

/** The number of output lines that could not be written since the process began. */
export const droppedLines = (): number => STDOUT.dropped + STDERR.dropped;

function toStderr(): DestinationStream {
  STDERR.guard();
  if (!process.stderr.isTTY) return STDERR;
  // Loaded for a terminal alone: most nodes write to a file or a pipe.
  const { prettyFactory } = createRequire(import.meta.url)("pino-pretty") as typeof import("pino-pretty");
  const pretty = prettyFactory({ ignore: "node", colorize: true });
  return { write: (line) => STDERR.write(pretty(withEscapes(line))) };
}

/** A backslash that is escaped, or a control of ASCII: line breaks and tabs have escapes of their own. */
const ESCAPE = /\\\\|\\u00[01][\da-f]/g;

/** A JSON line whose texts show the escapes of controls, which would otherwise reach the terminal as the controls. */
export const withEscapes = (line: string): string =>
  line.replace(ESCAPE, (found) => (found === "\\\\" ? found : `\\${found}`));

function reportDropped(lines: number): string {
  const line = { level: WARN, time: new Date().toISOString(), lines, msg: "lines of the log could not be written" };
  return `${JSON.stringify(line)}\n`;
}
