import type { EventType, LIVE_EVENTS, LiveType, LoggedData, LoggedType } from "../protocol/event.ts";
import { EVENT_LOGS } from "../protocol/event-logs.ts";
import { isObject, parseJson } from "../shared/json.ts";

type DataOf<T extends EventType> = T extends LoggedType
  ? LoggedData<T>
  : T extends LiveType
    ? ReturnType<(typeof LIVE_EVENTS)[T]["parse"]>
    : never;

/** An event of one type, as the JSON behind `data:`. */
export interface ServerEventOf<T extends EventType> {
  type: T;
  data: DataOf<T>;
  /** When it happened, as an ISO date. */
  timestamp: string;
  sessionId?: string;
  /** Its number in its session's log; absent for an event that is not logged. */
  seq?: number;
  /** The interaction that it belongs to. */
  requestId?: string;
}

/** An event of any type that this client knows. */
export type ServerEvent = { [T in EventType]: ServerEventOf<T> }[EventType];

/** A logged event, as in a page of a log. */
export type LoggedServerEvent = { [T in LoggedType]: ServerEventOf<T> }[LoggedType];

/** Parse an event from the text behind `data:`. Undefined for a type that this version of the client does not know. */
export function parseServerEvent(text: string): ServerEvent | undefined {
  const event = parseJson(text);
  if (!isObject(event)) return undefined;
  const { type, data } = event;
  if (typeof type !== "string" || !Object.hasOwn(EVENT_LOGS, type)) return undefined;
  return isObject(data) ? (event as unknown as ServerEvent) : undefined;
}
