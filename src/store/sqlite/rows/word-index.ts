import type { DatabaseSync, StatementSync } from "node:sqlite";
import { wordsOf } from "../../search-words.ts";

/** The search index: one row of words per session (title and summary) and per message. Triggers delete the rows. */
export class WordIndex {
  readonly #addSession: StatementSync;
  readonly #addMessage: StatementSync;
  readonly #dropSession: StatementSync;
  readonly #dropMessage: StatementSync;

  constructor(db: DatabaseSync) {
    this.#addSession = db.prepare("INSERT INTO session_words (rowid, words) VALUES (?, ?)");
    this.#addMessage = db.prepare("INSERT INTO message_words (rowid, words) VALUES (?, ?)");
    this.#dropSession = db.prepare("DELETE FROM session_words WHERE rowid = ?");
    this.#dropMessage = db.prepare("DELETE FROM message_words WHERE rowid = ?");
  }

  addSession(sessionKey: number, text: string): void {
    this.#addSession.run(sessionKey, wordsOf(text));
  }

  addMessage(messageKey: number, text: string): void {
    this.#addMessage.run(messageKey, wordsOf(text));
  }

  dropSession(sessionKey: number): void {
    this.#dropSession.run(sessionKey);
  }

  dropMessage(messageKey: number): void {
    this.#dropMessage.run(messageKey);
  }
}
