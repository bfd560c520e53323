// Rule C31 of docs/inside/correctness.md.
import { createHmac } from "node:crypto";
import { BOUNDS } from "../config/bounds.ts";
import { AppError } from "../protocol/errors.ts";
import type { MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { History } from "../protocol/internal/command.ts";
import { headlineOf, type Message } from "../protocol/message.ts";
import type { Origin } from "../protocol/session.ts";
import { idText } from "../shared/id-text.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { StagedCopies, StagedId, StoreSecret } from "../store/store.ts";

/** Messages and bytes per write to the store. Other writes can run between two of them. */
const PIECE_MESSAGES = 64;
const PIECE_BYTES = 262_144;

export interface StagedHistoryOptions {
  store: StagedCopies & StoreSecret;
  clock: Clock;
  newId: () => string;
  /** The id of the session that will begin with this history. */
  sessionId: SessionId;
}

/**
 * The history of a session that does not exist yet. It is written to the store in pieces, so that a long history takes
 * little memory and delays no other request. It is invisible until the command that creates the session adopts it in
 * one small commit. A history that no command adopts is pruned.
 */
export class StagedHistory {
  readonly sessionId: SessionId;
  readonly #options: StagedHistoryOptions;
  readonly #stagedAs: StagedId;
  #piece: Message[] = [];
  #pieceBytes = 0;
  #bytes = 0;
  #count = 0;
  #isWritten = false;
  #summary: History["summary"];
  #keepsIds = false;

  constructor(options: StagedHistoryOptions) {
    this.#options = options;
    this.sessionId = options.sessionId;
    this.#stagedAs = `~${options.newId()}`;
  }

  /** Let the messages keep their ids, because their source ends with the copy. Call it before the first one. */
  keepIds(): void {
    this.#keepsIds = true;
  }

  get messageCount(): number {
    return this.#count;
  }

  /**
   * Replace an id of the source by an id for this history. The same input gives the same id, which never equals an id
   * of the source, unless the messages keep theirs.
   */
  idFor<T extends MessageId | RunId>(id: T): T {
    if (this.#keepsIds) return id;
    const hmac = createHmac("sha256", this.#options.store.secret);
    const hash = hmac.update(JSON.stringify(["copied", this.#stagedAs, id])).digest("base64url");
    return idText(hash.slice(0, 22)) as T;
  }

  /**
   * Count further bytes of the history, such as those of an image.
   * @throws AppError `too_large`
   */
  weigh(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > BOUNDS.historyBytes) {
      const mib = BOUNDS.historyBytes / 1_048_576;
      throw new AppError("too_large", `The history is larger than ${mib} MiB, the maximum for a copy or an import.`);
    }
  }

  /**
   * Add the next message. The ids of its source are replaced.
   * @throws AppError `too_large`, `unavailable`
   */
  async add(message: Message): Promise<MessageId> {
    if (this.#count >= BOUNDS.historyMessages) {
      throw new AppError(
        "too_large",
        `The history has more than ${BOUNDS.historyMessages} messages, the maximum for a copy or an import.`,
      );
    }
    const { runId, summary } = message;
    const id = this.idFor(message.id);
    const copy: Message = {
      ...message,
      id,
      sessionId: this.sessionId,
      ...(runId !== undefined && { runId: this.idFor(runId) }),
      ...(summary && { summary: { upTo: this.idFor(summary.upTo) } }),
    };
    if (summary) this.#summary = { messageId: id, headline: headlineOf(message.content) };
    const bytes = Buffer.byteLength(JSON.stringify(copy));
    this.weigh(bytes);
    this.#piece.push(copy);
    this.#pieceBytes += bytes;
    this.#count += 1;
    if (this.#piece.length >= PIECE_MESSAGES || this.#pieceBytes >= PIECE_BYTES) await this.#write();
    return id;
  }

  /** Write the remaining messages. @returns the description that the adopting command needs */
  async finish(origin: Origin): Promise<History> {
    await this.#write();
    return {
      ...(this.#isWritten && { stagedAs: this.#stagedAs }),
      messageCount: this.#count,
      origin,
      ...(this.#summary && { summary: this.#summary }),
    };
  }

  /** Let the history be pruned. Does nothing after it has become a session. Never rejects. */
  async discard(): Promise<void> {
    this.#piece = [];
    // If this fails, the history is pruned later.
    if (this.#isWritten) await this.#options.store.discardStaged(this.#stagedAs).catch(() => {});
  }

  async #write(): Promise<void> {
    if (this.#piece.length === 0) return;
    const { store, clock } = this.#options;
    const piece = this.#piece;
    this.#piece = [];
    this.#pieceBytes = 0;
    this.#isWritten = true;
    await store.stageMessages(this.#stagedAs, piece, clock.now());
  }
}
