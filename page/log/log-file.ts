import { PageError } from "../words/failure-text.ts";
import type { LogEvent } from "./log-event.ts";

/** The format of a saved log, which tells it from other JSON files. */
const FORMAT = "interlock-floor-log";
const VERSION = 1;
/** Larger files are refused before they are read. */
export const MAX_FILE_BYTES = 268_435_456;

export interface LogFile {
  floorId: string;
  /** Oldest first. */
  events: readonly LogEvent[];
}

export function writeLogFile({ floorId, events }: LogFile): string {
  return JSON.stringify({ format: FORMAT, version: VERSION, floorId, events });
}

/** @throws PageError for a file that is not a floor's log; it names the fault */
export function readLogFile(text: string): LogFile {
  const file = parsed(text);
  if (!isObject(file) || file["format"] !== FORMAT) throw new PageError("log.notalog");
  if (file["version"] !== VERSION) throw new PageError("log.version", { version: String(file["version"]) });
  const { floorId, events } = file;
  if (typeof floorId !== "string" || !Array.isArray(events)) throw new PageError("log.noevents");
  const wrong = events.findIndex((event) => !isEvent(event));
  if (wrong >= 0) throw new PageError("log.badevent", { number: wrong + 1 });
  return { floorId, events: events as LogEvent[] };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new PageError("log.notjson");
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

const isEvent = (value: unknown): boolean =>
  isObject(value) &&
  typeof value["type"] === "string" &&
  isObject(value["data"]) &&
  typeof value["position"] === "string" &&
  typeof value["timestamp"] === "string" &&
  !Number.isNaN(Date.parse(value["timestamp"]));
