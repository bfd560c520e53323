import { createHmac } from "node:crypto";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import type { MessageId, RunId, SessionId } from "../../protocol/ids.ts";
import type { History } from "../../protocol/internal/command.ts";
import type { Message } from "../../protocol/message.ts";
import type { Clock } from "../../protocol/ports/clock.ts";
import type { Origin } from "../../protocol/session.ts";
import type { StagedId, Store } from "../../store/store.ts";

/** Messages and bytes of one write to the store. Other writes get their turn between two of them. */
const PIECE_MESSAGES = 64;
const PIECE_BYTES = 262_144;

export interface StagedHistoryOptions {
  store: Pick<Store, "secret" | "stageMessages" | "discardStaged">;
  clock: Clock;
  newId: () => string;
  /** The id of the session that is to begin with this history. */
  sessionId: SessionId;
}

/**
 * The history of a session that does not exist yet, written to the store in pieces, so that a session of any length takes
 * little memory and delays no other request. Nothing is visible until the command that creates the session adopts it, whose commit
 * is as small as any. What is left of a history that no command adopts is pruned.
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

  constructor(options: StagedHistoryOptions) {
    this.#options = options;
    this.sessionId = options.sessionId;
    this.#stagedAs = `~${options.newId()}`;
  }

  get messageCount(): number {
    return this.#count;
  }

  /** An id of this history for an id of another one: always the same, and no id of the other session. */
  idFor<T extends MessageId | RunId>(id: T): T {
    const hmac = createHmac("sha256", this.#options.store.secret);
    const hash = hmac.update(JSON.stringify(["copied", this.#stagedAs, id])).digest("base64url");
    return hash.slice(0, 22) as T;
  }

  /**
   * Count bytes that come with the history, such as an image's.
   * @throws AppError `too_large`
   */
  weigh(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > BOUNDS.historyBytes) {
      const mib = BOUNDS.historyBytes / 1_048_576;
      throw new AppError("too_large", `A history that is copied or imported has at most ${mib} MiB.`);
    }
  }

  /**
   * Add the next message. Its ids are those of the other session; they are replaced.
   * @throws AppError `too_large`, `unavailable`
   */
  async add(message: Message): Promise<MessageId> {
    if (this.#count >= BOUNDS.historyMessages) {
      throw new AppError(
        "too_large",
        `A history that is copied or imported has at most ${BOUNDS.historyMessages} messages.`,
      );
    }
    const { runId } = message;
    const id = this.idFor(message.id);
    const copy: Message = {
      ...message,
      id,
      sessionId: this.sessionId,
      ...(runId !== undefined && { runId: this.idFor(runId) }),
    };
    const bytes = Buffer.byteLength(JSON.stringify(copy));
    this.weigh(bytes);
    this.#piece.push(copy);
    this.#pieceBytes += bytes;
    this.#count += 1;
    if (this.#piece.length >= PIECE_MESSAGES || this.#pieceBytes >= PIECE_BYTES) await this.#write();
    return id;
  }

  /** Write what is left. @returns what the command that adopts it says of it */
  async finish(origin: Origin): Promise<History> {
    await this.#write();
    return { ...(this.#isWritten && { stagedAs: this.#stagedAs }), messageCount: this.#count, origin };
  }

  /** Leave it to be pruned. Does nothing once a session has adopted it. Never rejects. */
  async discard(): Promise<void> {
    this.#piece = [];
    // What is not discarded now is pruned later.
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
