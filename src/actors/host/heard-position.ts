/** How much of a spoken reply was heard, and which positions count. */

import { isReply } from "../../protocol/heard.ts";
import type { Command, CommandOf } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import type { Message } from "../../protocol/message.ts";
import type { SessionContext } from "../session/session-context.ts";
import type { Ledger } from "./ledger.ts";

/** Whether the command says what was played of a reply. */
export const saysPlayed = (command: Command): command is CommandOf<"session.played"> | CommandOf<"session.chat"> =>
  command.type === "session.played" || (command.type === "session.chat" && command.turn.playedUpTo !== undefined);

/** The rest of a command, after its position in a spoken reply has been checked. */
interface CheckedCommand {
  /** Applied before the command: keeps the position. */
  before?: Command;
  command: Command;
  /** How far the reply counts as spoken then. Absent: the command says nothing of a reply. */
  upTo?: number | undefined;
}

/**
 * Only a later position in the newest turn's reply counts: models have already got the replies before.
 * @returns what to apply, or the answer if the command is not to be applied
 */
export function checkPlayed(
  command: Command,
  session: SessionContext | undefined,
  messages: Pick<Ledger, "find" | "repliesOf">,
): CheckedCommand | { answer: Reply } {
  if (!session || !saysPlayed(command)) return { command };
  const replies = session.newest ? messages.repliesOf(session.id, session.newest.runId) : [];
  return command.type === "session.played"
    ? checkMessage(command, replies, messages.find(session.id, command.messageId))
    : checkTurn(command, replies);
}

/** A position counts in one message. Of a message that may grow, or lost its end, as much counts as is stored. */
function checkMessage(
  command: CommandOf<"session.played">,
  replies: readonly Message[],
  message: Message | undefined,
): CheckedCommand | { answer: Reply } {
  const { sessionId, messageId, upTo } = command;
  if (!message || !isReply(message)) {
    return { answer: { ok: false, code: "not_found", message: `The session has no reply ${messageId}.` } };
  }
  const { content, playedUpTo } = message;
  if (upTo > content.length && isWhole(message)) return { answer: tooFar(upTo, content.length) };
  const position = { at: replies.findIndex(({ id }) => id === messageId), upTo: Math.min(upTo, content.length) };
  if (isFurther(position, furthest(replies))) {
    return { command: { ...command, upTo: position.upTo }, upTo: position.upTo };
  }
  return { answer: { ok: true, sessionId, messageId, ...(playedUpTo !== undefined && { playedUpTo }) } };
}

/** A turn counts in the text of all messages of the reply before it, as the client got them. */
function checkTurn(
  command: CommandOf<"session.chat">,
  replies: readonly Message[],
): CheckedCommand | { answer: Reply } {
  const said = command.turn.playedUpTo!;
  const starts: number[] = [];
  let total = 0;
  for (const { content } of replies) {
    starts.push(total);
    total += content.length;
  }
  if (starts.length === 0) return { command };
  if (said > total && replies.every(isWhole)) return { answer: tooFar(said, total) };
  const upTo = Math.min(said, total);
  // What begins where the speech ended was not heard.
  const at = starts.findLastIndex((start) => start <= upTo);
  const known = furthest(replies);
  if (!isFurther({ at, upTo: upTo - starts[at]! }, known)) return { command, upTo: starts[known.at]! + known.upTo };
  const { sessionId, id: messageId } = replies[at]!;
  return { before: { type: "session.played", sessionId, messageId, upTo: upTo - starts[at]! }, command, upTo };
}

/** A place in a reply: in its message of this index. */
interface Position {
  at: number;
  upTo: number;
}

const NOWHERE: Position = { at: -1, upTo: -1 };

function furthest(replies: readonly Message[]): Position {
  const at = replies.findLastIndex(({ playedUpTo }) => playedUpTo !== undefined);
  return at < 0 ? NOWHERE : { at, upTo: replies[at]!.playedUpTo! };
}

const isFurther = (one: Position, other: Position): boolean =>
  one.at > other.at || (one.at === other.at && one.at >= 0 && one.upTo > other.upTo);

/** A client may have got more of a message that was cut off than is stored. */
const isWhole = ({ status }: Message): boolean => status === "success";

const tooFar = (upTo: number, end: number): Reply => ({
  ok: false,
  code: "bad_request",
  message: `The reply ends at ${end}, before ${upTo}.`,
});
