import { Buffer } from "node:buffer";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { LogEntry } from "../../../protocol/event.ts";
import type { SessionId } from "../../../protocol/ids.ts";
import type { MessageWrite } from "../../store.ts";
import { type StoredEventText, wholeJson } from "../event-text.ts";
import { prepareBigQuery, type Query } from "../query.ts";
import type { LogBlocks } from "./log-blocks.ts";

/** Data of an event above this size is stored in a table of its own (rule C22), in UTF-8 bytes. */
const MAX_INLINE = 65_536;
/** Shorter texts are stored in the event itself, in UTF-16 units. */
const MIN_SHARED = 64;

/** A message whose text an event may repeat. */
export interface SharedText {
  messageKey: number;
  content: string;
}

/**
 * Writes a floor's log. A message's text appears in its row and again in its event, byte for byte. It is stored once,
 * in the row, and the event is assembled when it is read.
 */
export class EventWriter {
  readonly #blocks: LogBlocks;
  readonly #add: StatementSync;
  readonly #addBlob: StatementSync;
  readonly #sharing: Query<{ key: bigint } & StoredEventText>;
  readonly #put: StatementSync;

  constructor(db: DatabaseSync, blocks: LogBlocks) {
    this.#blocks = blocks;
    this.#add = db.prepare(`
      INSERT INTO events (event_key, session_key, seq, type, request_id, at, json, message_key, text_at)
      VALUES (? << 32 | ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#add.setReadBigInts(true);
    this.#addBlob = db.prepare("INSERT INTO event_blobs (event_key, json) VALUES (?, ?)");
    this.#sharing = prepareBigQuery(
      db,
      `
      SELECT e.event_key AS key, coalesce(e.json, b.json) AS json, e.text_at AS textAt, m.content AS text
      FROM events e JOIN messages m USING (message_key) LEFT JOIN event_blobs b USING (event_key)
      WHERE e.message_key = ?`,
    );
    this.#put = db.prepare("UPDATE events SET json = ?, message_key = NULL, text_at = NULL WHERE event_key = ?");
  }

  /** @param texts the current texts of the session's messages */
  add(event: LogEntry, floorKey: number, sessionKey: number | null, texts: readonly SharedText[]): void {
    const { floorSeq, seq = null, type, requestId = null, at } = event;
    const { json, messageKey, textAt } = type === "message" ? shareText(event.json, texts) : { json: event.json };
    const large = isLarge(json);
    const { lastInsertRowid } = this.#add.run(
      floorKey,
      floorSeq,
      sessionKey,
      seq,
      type,
      requestId,
      at,
      large ? null : json,
      messageKey ?? null,
      textAt ?? null,
    );
    if (large) this.#addBlob.run(lastInsertRowid, json);
    if (sessionKey !== null) this.#blocks.noteEvent(floorKey, floorSeq, sessionKey, event.seq!);
    if (type === "arbitration") this.#blocks.noteDecision(floorKey, floorSeq);
  }

  /** Call it before a message's text changes or is deleted: its events get a copy of the text. */
  release(messageKey: number): void {
    for (const row of this.#sharing.all(messageKey)) {
      const json = wholeJson({ ...row, textAt: Number(row.textAt) });
      const large = isLarge(json);
      this.#put.run(large ? null : json, row.key);
      if (large) this.#addBlob.run(row.key, json);
    }
  }
}

/** The texts of the messages that a change writes as a whole. */
export function textsOf(
  messages: readonly MessageWrite[],
  keyOf: (sessionId: SessionId, id: string) => number,
): Map<SessionId, SharedText[]> {
  const whole = new Map<string, Extract<MessageWrite, { message: unknown }>>();
  for (const write of messages) {
    if ("message" in write) whole.set(`${write.message.sessionId}/${write.message.id}`, write);
    else if (write.kind !== "status") whole.delete(`${write.sessionId}/${write.id}`);
  }
  const texts = new Map<SessionId, SharedText[]>();
  for (const { message } of whole.values()) {
    const { sessionId, id, content } = message;
    // SQLite does not preserve a lone surrogate.
    if (content.length < MIN_SHARED || !content.isWellFormed()) continue;
    texts.set(sessionId, [...(texts.get(sessionId) ?? []), { messageKey: keyOf(sessionId, id), content }]);
  }
  return texts;
}

function shareText(json: string, texts: readonly SharedText[]) {
  for (const { messageKey, content } of texts) {
    const literal = JSON.stringify(content);
    const textAt = json.indexOf(literal);
    if (textAt !== -1) return { json: json.slice(0, textAt) + json.slice(textAt + literal.length), messageKey, textAt };
  }
  return { json };
}

/** A UTF-16 unit takes at most three bytes, so most texts need no exact count. */
function isLarge(json: string): boolean {
  return json.length * 3 > MAX_INLINE && Buffer.byteLength(json) > MAX_INLINE;
}
