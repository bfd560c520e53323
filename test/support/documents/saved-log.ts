import { writeTemporary } from "../clients/callers.ts";
import { MadeLog } from "./made-log.ts";

/**
 * Write a log file that the page can open, with one session for each of the given moments.
 * @param seconds the moments, in seconds after 08:00 UTC
 * @param onEnd registers the function that deletes the file
 */
export function saveLog(seconds: readonly number[], onEnd: Parameters<typeof writeTemporary>[2]): Promise<string> {
  const log = new MadeLog();
  for (const [index, second] of seconds.entries())
    log.create(`s${index}`, { title: `Session ${index}` }, second * 1_000);
  return writeTemporary("log.json", log.toJson(), onEnd);
}
