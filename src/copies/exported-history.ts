import type { VisibleSessions } from "../gateway/access/visible-sessions.ts";
import { heardUnits } from "../protocol/heard.ts";
import type { ImageRef, Message } from "../protocol/message.ts";
import type { Session } from "../protocol/session.ts";
import { jsonInOneLine, toOneLine } from "../shared/text.ts";
import { finishedMessages } from "./copied-history.ts";

export const EXPORT_FORMATS = ["md", "jsonl"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const MEDIA_TYPES: Record<ExportFormat, string> = {
  md: "text/markdown; charset=utf-8",
  jsonl: "application/x-ndjson; charset=utf-8",
};

/** The format version of exported lines, which an import must match. */
export const LINES_VERSION = 1;

/**
 * The pieces of an exported session: its finished messages, read while they are sent. The export leaves out providers'
 * sessions, approved tools, logs and the owner.
 * @throws AppError if the session is deleted during the export, which then lacks its last line
 */
export async function* exportedPieces(
  format: ExportFormat,
  sessions: VisibleSessions,
  session: Session,
  now: number,
): AsyncGenerator<string> {
  yield* format === "md" ? markdown(sessions, session) : lines(sessions, session, now);
}

/**
 * One JSON object per line: the session, its images and messages, and `end`, which proves that the file is complete.
 */
async function* lines(sessions: VisibleSessions, session: Session, now: number): AsyncGenerator<string> {
  const { title, summary, agentId, workspaceId, createdAt } = session;
  yield exportedLine({
    type: "session",
    version: LINES_VERSION,
    title,
    summary,
    agentId,
    workspaceId,
    createdAt,
    exportedAt: now,
  });
  const written = new Set<string>();
  let count = 0;
  for await (const message of finishedMessages(sessions, session.id)) {
    for (const image of message.images ?? []) {
      if (written.has(image.hash)) continue;
      written.add(image.hash);
      yield await imageLine(sessions, session, image);
    }
    const { sessionId: _, ...shown } = message;
    yield exportedLine({ type: "message", ...shown });
    count += 1;
  }
  yield exportedLine({ type: "end", messages: count });
}

export const exportedLine = (value: object): string => `${jsonInOneLine(JSON.stringify(value))}\n`;

async function imageLine(sessions: VisibleSessions, { id }: Session, { hash }: ImageRef): Promise<string> {
  const { mimeType, bytes } = await sessions.image(id, hash);
  return exportedLine({ type: "image", hash, mimeType, data: Buffer.from(bytes).toString("base64") });
}

/** A Markdown document for people. */
async function* markdown(sessions: VisibleSessions, session: Session): AsyncGenerator<string> {
  const { id, title, agentId, createdAt } = session;
  yield `# ${toOneLine(title)}\n\n${agentId}, ${new Date(createdAt).toISOString()}\n`;
  for await (const [message, heard] of withHeard(finishedMessages(sessions, id))) {
    const images = (message.images ?? []).map(({ hash }) => `\n![image](/session/${id}/images/${hash})\n`).join("");
    const text = message.content === "" ? "" : `\n${message.content}\n`;
    yield `\n## ${headingOf(message)}\n${text}${images}${noteOf(message, heard)}`;
  }
}

/** Each message with how much of it was heard: that depends on the other messages of its turn. */
async function* withHeard(messages: AsyncIterable<Message>): AsyncGenerator<[message: Message, heardUnits: number]> {
  let turn: Message[] = [];
  for await (const message of messages) {
    if (message.runId === undefined || message.runId !== turn[0]?.runId) {
      yield* heardIn(turn);
      turn = [];
    }
    turn.push(message);
  }
  yield* heardIn(turn);
}

function heardIn(turn: readonly Message[]): [Message, number][] {
  const heard = heardUnits(turn);
  return turn.map((message, index) => [message, heard[index]!]);
}

/** How much of what was heard is repeated below an interrupted reply, in UTF-16 units: its end. */
const MAX_PLAYED_UNITS = 40;

function headingOf({ role, agent, summary, createdAt }: Message): string {
  const who = summary ? "Summary" : agent ? agent.path.join(" › ") : role === "user" ? "User" : role;
  return `${who}, ${new Date(createdAt).toISOString()}`;
}

/** A note for readers about an incomplete message. */
function noteOf(
  { status, finishReason, nativeFinishReason, errorMessage, content, playedUpTo }: Message,
  heard: number,
): string {
  if (heard < content.length && playedUpTo === undefined) return "\n_not heard_\n";
  if (heard < content.length) {
    return `\n_interrupted; heard until: …${toOneLine(content.slice(0, heard)).slice(-MAX_PLAYED_UNITS)}_\n`;
  }
  if (status === "error") return `\n_failed${errorMessage === undefined ? "" : `: ${toOneLine(errorMessage)}`}_\n`;
  if (status === "interrupted") return "\n_interrupted_\n";
  if (finishReason === undefined) return "";
  const word = nativeFinishReason === undefined ? "" : ` (${toOneLine(nativeFinishReason)})`;
  return `\n_incomplete: ${finishReason}${word}_\n`;
}
