import type { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { openWriter } from "./sqlite-file.ts";
import type { WriterAnswer, WriterMessage, WriterSettings } from "./sqlite-job.ts";
import { JobWriter } from "./sqlite-job-writer.ts";

/**
 * The thread that owns the writing connection: a commit waits for the disk, and the main thread must not. It does one
 * transaction per message and answers each. It ends when the connection cannot be trusted any more.
 */
function serve(port: NonNullable<typeof parentPort>, db: DatabaseSync): void {
  const writer = new JobWriter(db);
  const answer = (words: WriterAnswer) => port.postMessage(words);
  port.on("message", (message: WriterMessage) => {
    if (message !== "close") return answer(writer.transact(message));
    db.close();
    port.close();
  });
  // Nobody would be answered: better to be replaced.
  port.on("messageerror", (error) => {
    throw error;
  });
  answer("ready");
}

if (parentPort) serve(parentPort, openWriter(workerData as WriterSettings));
