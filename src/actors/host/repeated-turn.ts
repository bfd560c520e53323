import type { MessageId } from "../../protocol/ids.ts";
import type { TurnInput } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import type { Message } from "../../protocol/message.ts";
import type { SessionContext } from "../session/session-context.ts";

/** The answer to a turn whose message exists: the same as before, if it is the same message. */
export function answerAgain({ sessionId, id, role, content, images, runId }: Message, turn: TurnInput): Reply {
  const isSame = role === "user" && content === turn.content && sameImages(images, turn.images);
  if (!isSame) return { ok: false, code: "idempotency_mismatch" };
  return { ok: true, sessionId, messageId: id, ...(runId !== undefined && { runId }) };
}

/** Whether the message is the session's running or queued turn. */
export function hasTurn(session: SessionContext | undefined, id: MessageId): boolean {
  return session?.run?.messageId === id || session?.turns.some(({ messageId }) => messageId === id) === true;
}

function sameImages(stored: readonly { hash: string }[] = [], sent: readonly { hash: string }[] = []): boolean {
  return stored.length === sent.length && stored.every((image, index) => image.hash === sent[index]!.hash);
}
