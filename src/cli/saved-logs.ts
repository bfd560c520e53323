import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { z } from "zod";
import { SAVED_LOG } from "../client/saved-log.ts";
import type { LoggedServerEvent } from "../client/server-event.ts";
import { LOGGED_EVENTS, type LoggedType } from "../protocol/event.ts";
import { FloorId } from "../protocol/ids.ts";
import { parseJson } from "../shared/json.ts";

/** A floor's log in a file. */
export interface SavedFloorLog {
  floorId: string;
  /** The hash of the catalogue in force when it was written, if the file says it. */
  catalogue?: string | undefined;
  /** The oldest first. */
  events: LoggedServerEvent[];
}

/** The longest line, and the largest file of a single log, in bytes: as large as the page opens. */
const MAX_LOG_BYTES = 268_435_456;
/** The maximum number of events of one floor. */
export const MAX_LOG_EVENTS = 500_000;

/** A file is no saved log. The message says what is wrong, and where. */
export class LogFault extends Error {}

const Head = z.object({
  format: z.literal(SAVED_LOG.format),
  version: z.literal(SAVED_LOG.version),
  floorId: FloorId,
  catalogue: z.string().optional(),
  events: z.array(z.unknown()).max(MAX_LOG_EVENTS),
});

const Envelope = z.object({
  type: z.string(),
  data: z.unknown(),
  timestamp: z.iso.datetime(),
  sessionId: z.string().optional(),
  seq: z.number().optional(),
  requestId: z.string().optional(),
});

/**
 * Read the saved logs of a file one by one: one of the page or of `interlock simulate --format json`, or a line for
 * each floor, as `interlock export --logs` writes them. Event types that this release does not know are left out.
 * @throws LogFault, and errors of the file system
 */
export async function* readSavedLogs(path: string): AsyncGenerator<SavedFloorLog> {
  const lines = createInterface({ input: createReadStream(path, "utf8"), crlfDelay: Number.POSITIVE_INFINITY });
  let rest = "";
  let number = 0;
  let startedAt = 1;
  for await (const line of lines) {
    number += 1;
    rest = rest === "" ? line : `${rest}\n${line}`;
    if (rest.length > MAX_LOG_BYTES) throw new LogFault(`line ${startedAt}: a log is larger than 256 MiB`);
    // A log of the page has a line for each event; its last line closes it.
    if (!line.endsWith("}") || (startedAt < number && line !== "]}")) continue;
    if (startedAt === number && parseJson(line) === undefined) continue;
    yield readLog(rest, startedAt);
    rest = "";
    startedAt = number + 1;
  }
  if (rest.trim() !== "") yield readLog(rest, startedAt);
  if (number === 0) throw new LogFault("the file is empty");
}

function readLog(text: string, line: number): SavedFloorLog {
  const value = parseJson(text);
  if (value === undefined) throw new LogFault(`line ${line}: it is cut off, or no log of a floor`);
  const head = Head.safeParse(value);
  if (!head.success) {
    const { path, message } = head.error.issues[0]!;
    throw new LogFault(`line ${line}: it is no log of a floor: ${path.join(".")} ${message}`);
  }
  const { floorId, catalogue, events } = head.data;
  return {
    floorId,
    catalogue,
    events: events.flatMap((event, index) => readEvent(event, `${floorId} event ${index + 1}`)),
  };
}

function readEvent(value: unknown, where: string): LoggedServerEvent[] {
  const envelope = Envelope.safeParse(value);
  if (!envelope.success) throw new LogFault(`${where}: ${faultOf(envelope.error)}`);
  const { type } = envelope.data;
  if (!Object.hasOwn(LOGGED_EVENTS, type)) return [];
  const data = LOGGED_EVENTS[type as LoggedType].safeParse(envelope.data.data);
  if (!data.success) throw new LogFault(`${where}: data.${faultOf(data.error)}`);
  return [{ ...envelope.data, data: data.data } as unknown as LoggedServerEvent];
}

function faultOf({ issues }: z.ZodError): string {
  const { path, message } = issues[0]!;
  return `${path.join(".")} ${message}`;
}
