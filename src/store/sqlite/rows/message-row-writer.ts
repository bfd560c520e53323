import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Message } from "../../../protocol/message.ts";
import { valuesOf, withColumns } from "../../columns.ts";
import { detailsOf, logRowOf } from "../../rows.ts";
import type { LogLineWrite, MessageWrite } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";
import type { EventWriter } from "./event-writer.ts";
import type { WordIndex } from "./word-index.ts";

interface StoredMessage {
  key: number;
  status: string;
}

/** Writes messages and their logs. A message is searchable once it is complete. */
export class MessageRowWriter {
  readonly #words: WordIndex;
  readonly #events: EventWriter;
  readonly #find: Query<StoredMessage>;
  readonly #isSame: StatementSync;
  readonly #add: StatementSync;
  readonly #put: StatementSync;
  readonly #append: StatementSync;
  readonly #setStatus: StatementSync;
  readonly #content: Query<{ content: string }>;
  readonly #remove: StatementSync;
  readonly #addLog: StatementSync;
  readonly #useBlob: StatementSync;
  readonly #releaseBlobs: StatementSync;

  constructor(db: DatabaseSync, words: WordIndex, events: EventWriter) {
    this.#words = words;
    this.#events = events;
    this.#find = prepareQuery(db, "SELECT message_key AS key, status FROM messages WHERE session_key = ? AND id = ?");
    this.#isSame = db.prepare("SELECT 1 FROM messages WHERE message_key = ? AND content = ?");
    this.#add = db.prepare(
      "INSERT INTO messages (session_key, floor_key, id, status, details, content) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#put = db.prepare("UPDATE messages SET status = ?, details = ?, content = ? WHERE message_key = ?");
    this.#append = db.prepare("UPDATE messages SET content = content || ? WHERE message_key = ?");
    this.#setStatus = db.prepare("UPDATE messages SET status = ? WHERE message_key = ?");
    this.#content = prepareQuery(db, "SELECT content FROM messages WHERE message_key = ?");
    this.#remove = db.prepare("DELETE FROM messages WHERE message_key = ?");
    // An existing line with the same id is identical.
    this.#addLog = db.prepare(
      withColumns(
        "INSERT INTO message_logs (message_key, {{logs: $name}}) VALUES (?, {{logs: ?}}) ON CONFLICT DO NOTHING",
      ),
    );
    this.#useBlob = db.prepare(
      "INSERT OR IGNORE INTO message_blobs SELECT ?, blob_key FROM blobs WHERE session_id = ? AND hash = ?",
    );
    this.#releaseBlobs = db.prepare("DELETE FROM message_blobs WHERE message_key = ?");
  }

  keyOf(sessionKey: number, id: string): number | undefined {
    return this.#find.get(sessionKey, id)?.key;
  }

  write(sessionKey: number, floorKey: number, write: MessageWrite): void {
    if (write.kind === "add") return this.#insert(sessionKey, floorKey, write.message);
    const id = write.kind === "put" ? write.message.id : write.id;
    const stored = this.#find.get(sessionKey, id);
    if (!stored) {
      if (write.kind === "remove") return;
      throw new Error(`there is no message ${id} to ${write.kind}`);
    }
    const { key, status } = stored;
    switch (write.kind) {
      case "put":
        return this.#replace(stored, write.message);
      case "append":
        this.#events.release(key);
        this.#append.run(write.text, key);
        return this.#index(key, status, status, false);
      case "status":
        this.#setStatus.run(write.status, key);
        return this.#index(key, status, write.status, true);
      case "remove":
        this.#events.release(key);
        this.#remove.run(key);
    }
  }

  /** A line that is there already is the same line (W8). */
  addLog(sessionKey: number, log: LogLineWrite): void {
    const stored = this.#find.get(sessionKey, log.messageId);
    if (!stored) throw new Error(`there is no message ${log.messageId} to log for`);
    this.#addLog.run(stored.key, ...valuesOf("logs", logRowOf(log)));
  }

  #insert(sessionKey: number, floorKey: number, message: Message): void {
    const { id, status, content } = message;
    const { lastInsertRowid } = this.#add.run(sessionKey, floorKey, id, status, detailsOf(message), content);
    const key = Number(lastInsertRowid);
    this.#useBlobs(key, message);
    if (status !== "running") this.#words.addMessage(key, content);
  }

  #replace({ key, status }: StoredMessage, message: Message): void {
    const isSame = this.#isSame.get(key, message.content) !== undefined;
    if (!isSame) this.#events.release(key);
    this.#put.run(message.status, detailsOf(message), message.content, key);
    this.#releaseBlobs.run(key);
    this.#useBlobs(key, message);
    this.#index(key, status, message.status, isSame);
  }

  #useBlobs(key: number, { sessionId, images }: Message): void {
    for (const { hash } of images ?? []) this.#useBlob.run(key, sessionId, hash);
  }

  /** Update the search index after a change of status. `isSame`: the text did not change. */
  #index(key: number, before: string, after: string, isSame: boolean): void {
    const wasIndexed = before !== "running";
    const isIndexed = after !== "running";
    if (wasIndexed && isIndexed && isSame) return;
    if (wasIndexed) this.#words.dropMessage(key);
    if (isIndexed) this.#words.addMessage(key, this.#content.get(key)!.content);
  }
}
