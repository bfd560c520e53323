import { type DestinationStream, pino } from "pino";
import pretty from "pino-pretty";
import type { Logger } from "./protocol/logger.ts";

/**
 * A log on stderr, so that stdout is left to what was asked for: lines of JSON, or for people where it is a terminal.
 * Secrets have no business in facts; what may hold one by accident is crossed out.
 */
export function createLog(level: string, destination: DestinationStream = toStderr()): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: ["*.authorization", "*.cookie", "headers", "req", "res"],
    },
    destination,
  );
}

function toStderr(): DestinationStream {
  if (process.stderr.isTTY) return pretty({ destination: 2, sync: true, ignore: "pid,hostname" });
  return pino.destination({ dest: 2, sync: true });
}
