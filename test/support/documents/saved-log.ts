import type { LogEvent } from "../../../page/log/log-event.ts";
import { writeLogFile } from "../../../page/log/log-file.ts";
import { writeTemporary } from "../clients/callers.ts";
import { newSession } from "./made-log.ts";

const BEGUN = Date.parse("2026-11-22T08:00:00Z");

/**
 * Write a log file that the page can open, with one session for each of the given moments.
 * @param seconds the moments, in seconds after 08:00 UTC
 * @param onEnd registers the function that deletes the file
 */
export function saveLog(seconds: readonly number[], onEnd: Parameters<typeof writeTemporary>[2]): Promise<string> {
  const floorId = "u:quiet";
  const events = seconds.map((second, index) => ({
    type: "session_created",
    data: { ...newSession(BEGUN), id: `s${index}`, title: `Session ${index}`, agentId: "music", floorId, priority: 20 },
    sessionId: `s${index}`,
    seq: 1,
    position: `made.${index + 1}`,
    timestamp: new Date(BEGUN + second * 1_000).toISOString(),
  })) as unknown as LogEvent[];
  return writeTemporary("log.json", writeLogFile({ floorId, events }), onEnd);
}
