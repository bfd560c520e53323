import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { openWriter } from "../database-file.ts";
import { FileGuard } from "../file-identity.ts";
import { JobWriter } from "../rows/job-writer.ts";
import { type Job, MAX_GROUP, type WriterAnswer, type WriterMessage, type WriterSettings } from "./writer-job.ts";

/**
 * The thread that owns the writing connection, because a commit waits for the disk and the main thread must not. Jobs
 * that arrive during a transaction go into the next one. The thread ends when its connection is no longer reliable.
 */
function serve(port: NonNullable<typeof parentPort>, settings: WriterSettings): void {
  const guard = new FileGuard(settings.file, settings.opened);
  guard.checkFile();
  const db = openWriter(settings);
  const writer = new JobWriter(db, guard);
  const answer = (words: WriterAnswer) => port.postMessage(words);
  const waiting: Job[] = [];
  let isEnding = false;

  function receive(message: WriterMessage): void {
    if (message === "close") isEnding = true;
    else waiting.push(...message);
  }

  function receiveWaiting(): void {
    while (!isEnding && waiting.length < MAX_GROUP) {
      const come = receiveMessageOnPort(port);
      if (!come) return;
      receive(come.message);
    }
  }

  port.on("message", (message: WriterMessage) => {
    receive(message);
    receiveWaiting();
    while (waiting.length > 0) {
      answer(writer.commit(waiting.splice(0, MAX_GROUP)));
      receiveWaiting();
    }
    if (!isEnding) return;
    db.close();
    port.close();
  });
  // Jobs can no longer be answered. End, so that a new thread takes over.
  port.on("messageerror", (error) => {
    throw error;
  });
  answer("ready");
}

if (parentPort) serve(parentPort, workerData as WriterSettings);
