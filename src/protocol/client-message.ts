import { z } from "zod";
import { cleanText } from "../shared/text.ts";
import { AgentId, CommandId, ConnectionId, IfSeq, MessageId, Name, RequestId, SessionId } from "./ids.ts";
import { ConfirmationResponse, QuestionResponse } from "./interaction.ts";
import { Locale } from "./locale.ts";
import { Played } from "./message.ts";

/** The maximum length of a user's message, in UTF-16 units. A longer one is refused with `too_large`. */
export const MAX_CONTENT = 262_144;
/** The maximum length of an image in base64, in characters. */
export const MAX_IMAGE = 1_048_576;
export const MAX_IMAGES = 8;

const target = {
  sessionId: SessionId.optional(),
  connectionId: ConnectionId.optional(),
  commandId: CommandId.optional(),
};
/** The fields of a message that is a command to one session. */
const command = { ...target, ifSeq: IfSeq.optional() };

const DATA_URI = /^data:(image\/[a-z0-9.+-]{1,64})(?:;[a-z0-9-]{1,32}=[^;,]{0,64}){0,4};base64,/i;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const MIME_TYPE = /^image\/[a-z0-9.+-]{1,64}$/;

/** An image as a client sends it: base64, or a `data:` URI, whose media type then overrides `mimeType`. */
export const ImageInput = z
  .strictObject({
    data: z.string().min(1).meta({ description: "base64, or a data: URI" }),
    mimeType: z
      .string()
      .regex(MIME_TYPE, "image/…")
      .optional()
      .meta({ description: "image/…; a data: URI has its own" }),
  })
  .transform(({ data, mimeType }, context) => {
    const [prefix = "", named] = DATA_URI.exec(data) ?? [];
    const bytes = data.slice(prefix.length);
    const type = named?.toLowerCase() ?? mimeType;
    const fault = (path: string, message: string) =>
      context.issues.push({ code: "custom", path: [path], message, input: undefined });
    if (!BASE64.test(bytes)) fault("data", "base64");
    if (type === undefined) fault("mimeType", "image/…");
    return { data: bytes, mimeType: type ?? "" };
  });
export type ImageInput = z.infer<typeof ImageInput>;

const chat = {
  ...command,
  sessionId: SessionId.nullable()
    .optional()
    .meta({ description: "null: a sentence, which goes to no session that the connection is bound to" }),
  id: MessageId.optional(),
  content: z.string().overwrite(cleanText),
  images: z.array(ImageInput).max(MAX_IMAGES).optional(),
  userId: Name.optional(),
  zone: Name.optional(),
  workspaceId: Name.optional(),
  agentId: AgentId.optional(),
  locale: Locale.optional(),
};

const AGENT_ID = /^[a-z0-9_-]+$/;

/**
 * The error code for a malformed `agentId` of a `switch_agent`, ignoring surrounding white space; undefined if
 * well-formed.
 */
export function findAgentIdFault(agentId: string): "invalid_agent_id" | "invalid_agent_id_format" | undefined {
  const trimmed = agentId.trim();
  if (trimmed === "") return "invalid_agent_id";
  return AGENT_ID.test(trimmed) ? undefined : "invalid_agent_id_format";
}

/** The body of `POST /message`. An unknown field or `type` is a `bad_request`. */
export const ClientMessage = z
  .discriminatedUnion("type", [
    z.strictObject({ type: z.literal("chat"), ...chat }),
    z.strictObject({ type: z.literal("image"), ...chat }),
    z.strictObject({ type: z.literal("abort"), ...command }),
    /** The session checks `agentId`, so that each fault has its own code. */
    z.strictObject({ type: z.literal("switch_agent"), ...command, agentId: z.string().max(1_024) }),
    z.strictObject({
      type: z.literal("tool_confirmation_response"),
      ...command,
      requestId: RequestId,
      response: ConfirmationResponse,
    }),
    z.strictObject({
      type: z.literal("user_question_response"),
      ...command,
      requestId: RequestId,
      response: QuestionResponse,
    }),
    /** As the clients of the service before this one send it, with further fields. Files are never rolled back. */
    z.strictObject({
      type: z.literal("rollback"),
      ...target,
      rollback: z.object({
        messageIndex: z
          .int()
          .nonnegative()
          .meta({ description: "of the first message to take back, as in the list of rollback points" }),
        rollbackFiles: z.boolean().optional().meta({ description: "ignored: a session has no files" }),
      }),
    }),
    z.strictObject({ type: z.literal("pause"), ...command }),
    z.strictObject({ type: z.literal("resume"), ...command }),
    z.strictObject({ type: z.literal("archive"), ...command }),
    z.strictObject({ type: z.literal("ping"), ...target }),
    z.strictObject({ type: z.literal("heartbeat"), ...target }),
    z.strictObject({ type: z.literal("played"), ...target, ...Played.shape }),
  ])
  .meta({ id: "ClientMessage" });
export type ClientMessage = z.infer<typeof ClientMessage>;
