import type { LogEvent } from "../../../page/log/log-event.ts";

/** When the first event of a log happened, in ms since 1970. */
export const AT = Date.parse("2026-11-22T08:00:00.000Z");

/** An event of a floor's log, as the page has it: `index` seconds after the first one, unless it happened at `at`. */
export function logEvent(
  index: number,
  type: string,
  data: unknown = {},
  sessionId?: string,
  at = AT + index * 1_000,
): LogEvent {
  const [position, timestamp] = [`abc.${index + 1}`, new Date(at).toISOString()];
  return { type, data, sessionId, position, timestamp } as unknown as LogEvent;
}
