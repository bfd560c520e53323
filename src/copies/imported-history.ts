import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { z } from "zod";
import { BOUNDS } from "../config/bounds.ts";
import { MAX_CONTENT, MAX_IMAGE, MAX_IMAGES } from "../protocol/client-message.ts";
import { AppError, ERROR_CODES } from "../protocol/errors.ts";
import { AgentId, MessageId, RunId, type SessionId } from "../protocol/ids.ts";
import { FINISH_REASONS, type ImageRef, type Message, ROLES, Usage } from "../protocol/message.ts";
import { parseJson } from "../shared/json.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { cleanText } from "../shared/text.ts";
import type { BlobStore } from "../store/store.ts";
import type { ByteLines } from "./byte-lines.ts";
import { LINES_VERSION } from "./exported-history.ts";
import type { StagedHistory } from "./staged-history.ts";

/** The longest reasoning of one message, in UTF-16 units: the limit that runs have too. */
const MAX_REASONING = 32_768;
/** The longest other text of a message: an error, or the output of a tool. */
const MAX_NOTE = 262_144;
const MAX_LINE_DEPTH = 64;
/** The last instant that a `Date` can hold. */
const LAST_INSTANT = 8_640_000_000_000_000;

const Instant = z.number().int().min(0).max(LAST_INSTANT);
const text = (max: number) => z.string().max(max).overwrite(cleanText);

const SessionLine = z.object({
  type: z.literal("session"),
  version: z.literal(LINES_VERSION),
  title: text(256).optional(),
  agentId: AgentId.optional(),
});

const ImageLine = z.object({
  type: z.literal("image"),
  hash: z.string().regex(/^[a-f0-9]{64}$/),
  mimeType: z.string().regex(/^image\/[a-z0-9.+-]{1,64}$/),
  data: z.base64().max(MAX_IMAGE),
});

const MessageLine = z.object({
  type: z.literal("message"),
  id: MessageId,
  role: z.enum(ROLES),
  content: text(MAX_CONTENT),
  images: z
    .array(z.object({ hash: z.string() }))
    .max(MAX_IMAGES)
    .optional(),
  parts: z
    .array(
      z.union([
        z.object({ type: z.literal("reasoning"), text: text(MAX_REASONING) }),
        z.object({ type: z.literal("heard"), groups: z.record(text(128), text(MAX_REASONING)) }),
      ]),
    )
    .max(1)
    .optional(),
  status: z.enum(["success", "error", "interrupted"]),
  agent: z
    .object({
      kind: z.enum(["master", "sub"]),
      name: AgentId,
      depth: z.number().int().min(0).max(MAX_LINE_DEPTH),
      path: z.array(AgentId).max(MAX_LINE_DEPTH + 1),
      calls: z.array(text(128)).max(MAX_LINE_DEPTH).optional(),
    })
    .optional(),
  runId: RunId.optional(),
  output: text(MAX_NOTE).optional(),
  finishReason: z.enum(FINISH_REASONS).optional(),
  nativeFinishReason: text(64).optional(),
  errorCode: z.enum(ERROR_CODES).optional(),
  errorMessage: text(MAX_NOTE).optional(),
  usage: Usage.optional(),
  summary: z.object({ upTo: MessageId }).optional(),
  playedUpTo: z.int().min(0).max(MAX_CONTENT).optional(),
  createdAt: Instant,
  startedAt: Instant.optional(),
  finishedAt: Instant.optional(),
});

type MessageLine = z.infer<typeof MessageLine>;

const EndLine = z.object({ type: z.literal("end"), messages: z.number().int() });

const Line = z.discriminatedUnion("type", [SessionLine, ImageLine, MessageLine, EndLine]);

export interface ImportOptions {
  store: BlobStore;
  clock: Clock;
  into: StagedHistory;
}

/** The fields of a file's session that an import uses. */
export interface ImportedSession {
  title?: string | undefined;
  agentId?: AgentId | undefined;
}

/**
 * Read an exported session into a history, line by line. Replaces all ids. The file cannot set the session's owner,
 * floor or permissions.
 * @throws AppError `bad_request` with the line number; `too_large`
 */
export async function importHistory(source: ByteLines, options: ImportOptions): Promise<ImportedSession> {
  const { into } = options;
  let session: ImportedSession | undefined;
  let isOver = false;
  let number = 0;
  const ids = new Set<MessageId>();
  const images = new Map<string, ImageRef>();
  for await (const bytes of source) {
    number += 1;
    const value = parseLine(bytes, number);
    if (isOver) throw fault(number, "a line follows the end");
    checkOrder(value.type === "session", session !== undefined, number);
    switch (value.type) {
      case "session":
        session = { title: value.title?.trim() || undefined, agentId: value.agentId };
        break;
      case "image":
        images.set(value.hash, await keepImage(value, number, options));
        break;
      case "message":
        checkMessage(value, number, ids);
        ids.add(value.id);
        await into.add(messageOf(value, number, images));
        break;
      case "end":
        if (value.messages !== into.messageCount) throw fault(number, `${into.messageCount} messages precede it`);
        isOver = true;
    }
  }
  if (!session || !isOver) throw fault(number + 1, "the file ends before its end");
  return session;
}

/** The first line is the session's, and no other one is. */
function checkOrder(isSession: boolean, hasSession: boolean, number: number): void {
  if (hasSession && isSession) throw fault(number, "there is already a session line");
  if (!hasSession && !isSession) throw fault(number, "the first line is the session's");
}

async function keepImage(
  { hash, mimeType, data }: z.infer<typeof ImageLine>,
  number: number,
  { store, clock, into }: ImportOptions,
): Promise<ImageRef> {
  const bytes = Buffer.from(data, "base64");
  if (createHash("sha256").update(bytes).digest("hex") !== hash) throw fault(number, "hash: is not that of the data");
  into.weigh(bytes.byteLength);
  await store.putBlob(into.sessionId, { hash, mimeType, bytes, createdAt: clock.now() });
  return { hash, mimeType, bytes: bytes.byteLength };
}

/** Check a message against the lines before it, whose messages have the ids `known`. */
function checkMessage({ id, role, summary }: MessageLine, number: number, known: ReadonlySet<MessageId>): void {
  if (known.has(id)) throw fault(number, "there is already a message with this id");
  if (!summary) return;
  if (!known.has(summary.upTo)) throw fault(number, "summary: no line before it has upTo");
  if (role !== "system") throw fault(number, "summary: only a system message has one");
}

function messageOf(
  { type: _, images: shown, ...rest }: MessageLine,
  number: number,
  images: ReadonlyMap<string, ImageRef>,
): Message {
  const refs = shown?.map(({ hash }) => {
    const image = images.get(hash);
    if (!image) throw fault(number, `images: no earlier line has the image ${hash.slice(0, 64)}`);
    return image;
  });
  return { ...rest, sessionId: "" as SessionId, ...(refs && refs.length > 0 && { images: refs }) };
}

function parseLine(bytes: Buffer, number: number): z.infer<typeof Line> {
  if (!isUtf8(bytes)) throw fault(number, "is not UTF-8 text");
  const value = parseJson(bytes.toString("utf8"));
  if (value === undefined) throw fault(number, "is not JSON");
  const line = Line.safeParse(value);
  if (line.success) return line.data;
  const [issue] = line.error.issues;
  throw fault(number, `${issue!.path.join(".")}${issue!.path.length > 0 ? ": " : ""}${issue!.message}`);
}

function fault(line: number, message: string): AppError {
  const issues = [{ path: `line ${line}`, message }];
  return new AppError("bad_request", `Line ${line} of the import: ${message}.`, { facts: { issues } });
}

/** The longest line that an import accepts. */
export const MAX_LINE_BYTES = BOUNDS.importedLineBytes;
