import { Buffer } from "node:buffer";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { LogEntry } from "../protocol/event.ts";
import type { SessionId } from "../protocol/ids.ts";
import { type EventText, wholeJson } from "./sqlite-rows.ts";
import type { MessageWrite } from "./store.ts";

/** An event's data in UTF-8 bytes, above which it lies beside the log and not in it (rule C22). */
const MAX_INLINE = 65_536;
/** Shorter texts are not worth sharing, in UTF-16 units. */
const MIN_SHARED = 64;

/** A message whose text an event may repeat. */
export interface SharedText {
  messageKey: number;
  content: string;
}

/**
 * Writes a floor's log. A message's text stands in its row and again in its event, byte for byte; it is stored once, in
 * the row, and the event is put together when it is read.
 */
export class EventWriter {
  readonly #add: StatementSync;
  readonly #addBlob: StatementSync;
  readonly #sharing: StatementSync;
  readonly #put: StatementSync;

  constructor(db: DatabaseSync) {
    this.#add = db.prepare(`
      INSERT INTO events (event_key, session_key, seq, type, request_id, at, json, message_key, text_at)
      VALUES (? << 32 | ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#add.setReadBigInts(true);
    this.#addBlob = db.prepare("INSERT INTO event_blobs (event_key, json) VALUES (?, ?)");
    this.#sharing = db.prepare(`
      SELECT e.event_key AS key, coalesce(e.json, b.json) AS json, e.text_at AS textAt, m.content AS text
      FROM events e JOIN messages m USING (message_key) LEFT JOIN event_blobs b USING (event_key)
      WHERE e.message_key = ?`);
    // Keys may be larger than a number can say.
    this.#sharing.setReadBigInts(true);
    this.#put = db.prepare("UPDATE events SET json = ?, message_key = NULL, text_at = NULL WHERE event_key = ?");
  }

  /** `texts`: those of messages of its session, as they stand now. */
  add(event: LogEntry, floorKey: number, sessionKey: number | null, texts: readonly SharedText[]): void {
    const { floorSeq, seq, type, requestId, at } = event;
    const { json, messageKey, textAt } = type === "message" ? shareText(event.json, texts) : { json: event.json };
    const place = [floorKey, floorSeq, sessionKey, seq ?? null, type, requestId ?? null, at];
    const large = isLarge(json);
    const { lastInsertRowid } = this.#add.run(...place, large ? null : json, messageKey ?? null, textAt ?? null);
    if (large) this.#addBlob.run(lastInsertRowid, json);
  }

  /** To be called before a message's text changes or goes: its events get theirs back. */
  release(messageKey: number): void {
    for (const row of this.#sharing.all(messageKey) as unknown as ({ key: bigint } & EventText)[]) {
      const json = wholeJson({ ...row, textAt: Number(row.textAt) });
      const large = isLarge(json);
      this.#put.run(large ? null : json, row.key);
      if (large) this.#addBlob.run(row.key, json);
    }
  }
}

/** The texts that a change leaves its messages with, where it says them whole. */
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
    // A lone surrogate does not come back from the row as it went in.
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

/** A UTF-16 unit is at most three bytes, so most texts need no counting. */
function isLarge(json: string): boolean {
  return json.length * 3 > MAX_INLINE && Buffer.byteLength(json) > MAX_INLINE;
}
