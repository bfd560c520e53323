/** How much of a reply was spoken: `session.played`, and a turn that says it of the reply before. */

import type { SessionId } from "../../protocol/ids.ts";
import type { Command } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import type { Message, Played } from "../../protocol/message.ts";
import type { SessionContext } from "../session/session-context.ts";
import type { Ledger } from "./ledger.ts";

/** What a command says of a spoken reply; undefined if it says nothing. */
export function playedBy(command: Command, session: SessionContext | undefined): Played | undefined {
  if (command.type === "session.played") return { messageId: command.messageId, upTo: command.upTo };
  if (command.type !== "session.chat" || command.turn.playedUpTo === undefined) return undefined;
  const messageId = session?.newest?.messageId;
  return messageId && { messageId, upTo: command.turn.playedUpTo };
}

/** The rest of a command, after its position in a spoken reply has been checked. */
interface CheckedCommand {
  /** Applied before the command: keeps the position. */
  before?: Command;
  command: Command;
  /** How far the reply counts as spoken then. Absent: the command says nothing of a reply. */
  upTo?: number | undefined;
}

/** @returns what to apply, or the answer if the command is not to be applied */
export function checkPlayed(
  command: Command,
  session: SessionContext | undefined,
  messages: Pick<Ledger, "find">,
): CheckedCommand | { answer: Reply } {
  const played = session && playedBy(command, session);
  if (!played) return { command };
  const checked = compare(played, messages.find(session.id, played.messageId), session);
  if ("ok" in checked) {
    return command.type === "session.played" || !checked.ok
      ? { answer: checked }
      : { command, upTo: checked.playedUpTo };
  }
  const note: Command = { type: "session.played", sessionId: session.id, ...checked };
  return command.type === "session.played"
    ? { command: note, upTo: checked.upTo }
    : { before: note, command, upTo: checked.upTo };
}

/**
 * Compare it with the reply. Only a later position in a reply of the newest turn counts: models have already got the
 * replies before. Of a reply that is being written, as much counts as is stored.
 * @returns the position to note, or the answer if nothing changes
 */
function compare(
  { messageId, upTo }: Played,
  message: Message | undefined,
  { id: sessionId, newest }: { id: SessionId } & Pick<SessionContext, "newest">,
): Played | Reply {
  if (message?.role !== "assistant" || message.agent?.kind === "sub") {
    return { ok: false, code: "not_found", message: `The session has no reply ${messageId}.` };
  }
  const { content, status, runId, playedUpTo } = message;
  if (status !== "running" && upTo > content.length) {
    return { ok: false, code: "bad_request", message: `The reply ends at ${content.length}, before ${upTo}.` };
  }
  const next = Math.min(upTo, content.length);
  if (runId === newest?.runId && next > (playedUpTo ?? -1)) return { messageId, upTo: next };
  return { ok: true, sessionId, messageId, ...(playedUpTo !== undefined && { playedUpTo }) };
}
