import { isFinished } from "../../copies/copied-history.ts";
import type { VisibleSessions } from "../../gateway/access/visible-sessions.ts";
import { AppError } from "../../protocol/errors.ts";
import type { MessageId, SessionId } from "../../protocol/ids.ts";
import type { Session } from "../../protocol/session.ts";

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
}

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
