import { DEFAULT_KEPT_TURNS } from "../config/catalog/adapter.ts";
import type { AgentId } from "../protocol/ids.ts";
import { isForModel, type Message } from "../protocol/message.ts";
import type { Summary, Turn } from "./agent.ts";
import { asHeard, newestWithin, toNote, uncovered } from "./conversation.ts";

/** The longest transcript for a program, in UTF-16 units; the oldest text is left out. */
const MAX_TRANSCRIPT_UNITS = 131_072;

const GO_ON =
  "You had begun to answer this, and were interrupted. Go on where you stopped, and repeat nothing. You had said:";

const PLAYED_ONLY = "The user interrupted you, and heard only this of your reply:";

/** The parts of a prompt besides the user's message, for an agent that keeps its own conversations. */
export interface Briefing {
  /** Messages that are new to the agent; undefined if there are none. */
  readonly missed: string | undefined;
  /** The agent's interrupted replies to this message; undefined if there are none. */
  readonly interrupted: string | undefined;
}

/**
 * The messages to send to an agent in addition to the user's message. If it continues a conversation of its own, these
 * are the messages after `turn.heardUpTo` that are not its own; if it begins a conversation, the whole history.
 */
export function brief(agentId: AgentId, turn: Turn, knows: "conversation" | "nothing"): Briefing {
  const past = turn.history.filter(({ id }) => id !== turn.input.id);
  const said = past.filter((message) => isOwn(message, agentId) && message.runId === turn.runId);
  const before = past.filter((message) => message.runId !== turn.runId && isForModel(message));
  const isKnown = knows === "conversation";
  const received = isKnown ? before.findLastIndex(({ id }) => id === turn.heardUpTo) : -1;
  const since = before.slice(received + 1);
  const news = since.filter((message) => !isKnown || !isOwn(message, agentId));
  // The provider's session has the whole reply, and does not know that the user heard only a part.
  const own = isKnown ? since.filter((message) => isOwn(message, agentId)) : [];
  const cut = [...Map.groupBy(own, ({ id, runId }) => runId ?? id).values()].flatMap((replies) => {
    const heard = asHeard(replies);
    return heard.every((message) => replies.includes(message)) ? [] : [heard];
  });
  const { summary } = received < 0 ? turn : {};
  const missed = summary ? uncovered(turn, news, DEFAULT_KEPT_TURNS) : newestWithin(news);
  const texts = [
    ...(missed.length > 0 || summary ? [transcriptOf(missed, summary)] : []),
    ...cut.map((replies) => [PLAYED_ONLY, ...replies.map(({ content }) => content)].join("\n\n")),
  ];
  return {
    missed: texts.length > 0 ? texts.join("\n\n") : undefined,
    interrupted: said.length > 0 ? `${GO_ON}\n\n${said.map(({ content }) => content).join("\n\n")}` : undefined,
  };
}

/** Whether the agent wrote the message, finished or interrupted. */
function isOwn({ role, agent, status, content }: Message, agentId: AgentId): boolean {
  const hasEnded = status === "success" || status === "interrupted";
  return role === "assistant" && agent?.kind === "master" && agent.name === agentId && hasEnded && content !== "";
}

export function toLine({ role, agent, content, images = [] }: Message): string {
  const speaker = role === "user" ? "User" : `Assistant${agent ? ` (${agent.name})` : ""}`;
  const pictures = images.length > 0 ? ` [${images.length} image(s)]` : "";
  return `${speaker}:${pictures} ${content}`;
}

function transcriptOf(messages: readonly Message[], summary: Summary | undefined): string {
  const text = asHeard(messages).map(toLine).join("\n\n");
  const cut = text.slice(Math.max(text.length - MAX_TRANSCRIPT_UNITS, 0));
  const note = summary ? `${toNote(summary)}\n\n` : "";
  return `This was said before, for you to know; do not answer it:\n\n${note}${cut.toWellFormed()}`;
}
