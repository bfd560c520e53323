import { isFinished } from "../../copies/copied-history.ts";
import type { VisibleSessions } from "../../gateway/access/visible-sessions.ts";
import { AppError } from "../../protocol/errors.ts";
import type { MessageId, SessionId } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";
import type { Session } from "../../protocol/session.ts";
import type { MessageRange } from "../../store/store.ts";
import type { EarlierMessages } from "./ui-request.ts";

/**
 * The maximum number of copies of one chat. Each edited or regenerated message makes one, and a lookup reads them all.
 */
const MAX_COPIES = 1_000;

/** The sessions of a chat: the session with the chat's id, and the copies that replaced it, oldest first. */
export class ChatSessions {
  readonly #sessions: VisibleSessions;
  readonly #all: readonly Session[];

  private constructor(sessions: VisibleSessions, all: readonly Session[]) {
    this.#sessions = sessions;
    this.#all = all;
  }

  /** @throws AppError `too_large` for a chat with too many copies */
  static async of(sessions: VisibleSessions, id: SessionId): Promise<ChatSessions> {
    const all: Session[] = [];
    for (let next: SessionId | undefined = id; next !== undefined; ) {
      if (all.length > MAX_COPIES) {
        throw new AppError(
          "too_large",
          `The chat has ${MAX_COPIES} edited or regenerated messages, the maximum. Begin a new chat.`,
        );
      }
      const session = await find(sessions, next);
      if (!session) break;
      all.push(session);
      next = session.replacedBy;
    }
    return new ChatSessions(sessions, all);
  }

  /** The session that takes the chat's next message; undefined if the chat has no session yet. */
  get newest(): Session | undefined {
    return this.#all.at(-1);
  }

  /**
   * The newest session in which the user sent this message. Copied messages have new ids, so this may be an archived
   * session. The messages before it are still the page's: an edit of one of them would have removed this message from
   * the page.
   */
  async holderOf(messageId: MessageId): Promise<SessionId | undefined> {
    for (const { id } of this.#all.toReversed()) {
      const said = await orUndefined(this.#sessions.message(id, messageId), "not_found");
      if (said?.role === "user" && isFinished(said)) return id;
    }
    return undefined;
  }

  /**
   * Where the chat goes on otherwise than the page's list of messages: the user's message that follows the last one of
   * the list. @returns undefined if the list has the chat's newest turn, or none of its turns
   * @param next the page's new message, which the chat has if it was sent before
   */
  async takenBackFrom(
    { users, ids }: EarlierMessages,
    next: MessageId | undefined,
  ): Promise<{ source: SessionId; messageId: MessageId } | undefined> {
    const { newest } = this;
    const last = newest && (await this.#findTurn(newest.id, "last"));
    if (!newest || !last || ids.has(last.id) || (last.runId !== undefined && ids.has(last.runId))) return undefined;
    if (next !== undefined && (await this.#sent(newest.id, next))) return undefined;
    for (const id of users.toReversed()) {
      for (const session of this.#all.toReversed()) {
        if (!(await this.#sent(session.id, id))) continue;
        const following = await this.#findTurn(session.id, { after: id });
        return following && { source: session.id, messageId: following.id };
      }
    }
    const first = users.length === 0 ? await this.#findTurn(newest.id, "first") : undefined;
    return first && { source: newest.id, messageId: first.id };
  }

  async #sent(id: SessionId, messageId: MessageId): Promise<boolean> {
    return (await orUndefined(this.#sessions.message(id, messageId), "not_found"))?.role === "user";
  }

  /** A message of the user that began a turn. */
  async #findTurn(id: SessionId, which: "first" | "last" | { after: MessageId }): Promise<Message | undefined> {
    const isForward = which !== "last";
    let range: Omit<MessageRange, "limit"> = which === "first" ? { fromStart: true } : which === "last" ? {} : which;
    for (;;) {
      const { messages, hasMore } = await this.#sessions.messages(id, { ...range, limit: PAGE });
      const turns = messages.filter((message) => message.role === "user" && isFinished(message));
      const found = isForward ? turns[0] : turns.at(-1);
      const end = (isForward ? messages.at(-1) : messages[0])?.id;
      if (found || !hasMore || end === undefined) return found;
      range = isForward ? { after: end } : { before: end };
    }
  }
}

/** Messages that are read at once: most turns have a few. */
const PAGE = 16;

async function find(sessions: VisibleSessions, id: SessionId): Promise<Session | undefined> {
  return (await orUndefined(sessions.view(id, 0), "session_not_found"))?.session;
}

async function orUndefined<T>(reading: Promise<T>, code: "not_found" | "session_not_found"): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof AppError && error.code === code) return undefined;
    throw error;
  }
}
