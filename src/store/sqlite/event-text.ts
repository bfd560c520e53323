import type { LogEntry } from "../../protocol/event.ts";
import { type EventRow, entryOf } from "../rows.ts";

/** An event's data as it is stored. `text`, if present, is inserted at `textAt`. */
export interface StoredEventText {
  json: string;
  textAt: number | null;
  text: string | null;
}

/** The event's data, with its text inserted. */
export function wholeJson({ json, textAt, text }: StoredEventText): string {
  if (textAt === null || text === null) return json;
  return json.slice(0, textAt) + JSON.stringify(text) + json.slice(textAt);
}

export type SqliteEventRow = EventRow & StoredEventText;

/** A row as an entry of the log, with its text inserted. */
export function wholeEntryOf(row: SqliteEventRow): LogEntry {
  return entryOf(row, wholeJson(row));
}
