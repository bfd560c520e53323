import { SAVED_LOG } from "../../src/client/saved-log.ts";
import { isObject, parseJson } from "../../src/shared/json.ts";
import { PageError } from "../words/failure-text.ts";
import { floorSeqOf, type LogEvent } from "./log-event.ts";
import { type LogSchema, type SchemaFault, schemaFault } from "./schema-fault.ts";

const HEAD = `{"format":"${SAVED_LOG.format}"`;
/** Larger files are refused before they are read. */
export const MAX_FILE_BYTES = 268_435_456;

export interface LogFile {
  floorId: string;
  /** Oldest first. */
  events: readonly LogEvent[];
}

/** The file has a line for each event, so that a fault can be found in it. */
export function writeLogFile({ floorId, events }: LogFile): string {
  const head = `${HEAD},"version":${SAVED_LOG.version},"floorId":${JSON.stringify(floorId)},"events":[`;
  return `${head}\n${events.map((event) => JSON.stringify(event)).join(",\n")}\n]}\n`;
}

/**
 * @param schema what the server's events are: a file is checked as strictly
 * @throws PageError for a file that is not a floor's log; it names the fault, and its line where each event has one
 */
export function readLogFile(text: string, schema: LogSchema): LogFile {
  const file = parsed(text);
  if (!isObject(file) || file["format"] !== SAVED_LOG.format) throw new PageError("log.notalog");
  if (file["version"] !== SAVED_LOG.version) throw new PageError("log.version", { version: String(file["version"]) });
  const { floorId, events } = file;
  if (!Array.isArray(events) || schemaFault(floorId, schema.floorId, schema.$defs)) throw new PageError("log.noevents");
  let before = 0;
  for (const [index, event] of events.entries()) {
    const { path, expected } = faultOf(event, schema, before) ?? {};
    if (path !== undefined) throw new PageError(...faultAt(text, index, events.length, { path, expected: expected! }));
    before = floorSeqOf(event);
  }
  return { floorId: floorId as string, events };
}

/** @param before the number of the event before */
function faultOf(event: unknown, { event: envelope, data, $defs }: LogSchema, before: number): SchemaFault | undefined {
  const fault = schemaFault(event, envelope, $defs);
  if (fault) return fault.path === "" ? { ...fault, path: "event" } : fault;
  const known = event as LogEvent;
  if (floorSeqOf(known) <= before) return { path: "position", expected: `> ${before}` };
  return schemaFault(known.data, data[known.type]!, $defs, "data");
}

type Fault = ConstructorParameters<typeof PageError>;

/** The fault of an event, with its line if the file has a line for each event, as `writeLogFile` writes them. */
function faultAt(text: string, index: number, count: number, fault: SchemaFault): Fault {
  const lines = linesOf(text);
  const isByLine = lines.length === count + 2 || lines.length === 1;
  const values = { ...fault, number: index + 1, line: lines.length === 1 ? 1 : index + 2 };
  return [isByLine ? "log.badline" : "log.badevent", values];
}

function parsed(text: string): unknown {
  const value = parseJson(text);
  if (value !== undefined) return value;
  if (!text.startsWith(HEAD)) throw new PageError("log.notjson");
  const lines = linesOf(text);
  const bad = lines.findIndex((line, index) => !isWholeLine(line, index));
  throw new PageError("log.cutline", { line: bad < 0 ? lines.length : bad + 1 });
}

const linesOf = (text: string): string[] => text.trimEnd().split("\n");

/** Whether a line of a damaged file is as `writeLogFile` wrote it. */
function isWholeLine(line: string, index: number): boolean {
  if (line === "]}") return true;
  return parseJson(index === 0 ? `${line}]}` : line.replace(/,\r?$/, "")) !== undefined;
}
