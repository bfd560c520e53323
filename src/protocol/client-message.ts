import { z } from "zod";
import { AgentId, CommandId, ConnectionId, MessageId, Name, RequestId, SessionId } from "./ids.ts";
import { ConfirmationResponse, QuestionResponse } from "./interaction.ts";
import { cleanText } from "./text.ts";

/** A user's message, in UTF-16 units. Over it: `too_large`. */
export const MAX_CONTENT = 262_144;
/** An image as it is sent, base64, in characters. */
export const MAX_IMAGE = 1_048_576;
export const MAX_IMAGES = 8;

const target = {
  sessionId: SessionId.optional(),
  connectionId: ConnectionId.optional(),
  commandId: CommandId.optional(),
};

/** An image as a client sends it: base64 without a `data:` prefix. */
export const ImageInput = z.object({
  data: z
    .string()
    .min(1)
    .regex(/^[A-Za-z0-9+/]+={0,2}$/, "base64"),
  mimeType: z.string().regex(/^image\/[a-z0-9.+-]{1,64}$/, "image/…"),
});
export type ImageInput = z.infer<typeof ImageInput>;

const chat = {
  ...target,
  id: MessageId.optional(),
  content: z.string().overwrite(cleanText),
  images: z.array(ImageInput).max(MAX_IMAGES).optional(),
  userId: Name.optional(),
  zone: Name.optional(),
  workspaceId: Name.optional(),
  agentId: AgentId.optional(),
};

const AGENT_ID = /^[a-z0-9_-]+$/;

/** What is wrong with the `agentId` of a `switch_agent`, white space around it aside; undefined when it could be one. */
export function findAgentIdFault(agentId: string): "invalid_agent_id" | "invalid_agent_id_format" | undefined {
  const trimmed = agentId.trim();
  if (trimmed === "") return "invalid_agent_id";
  return AGENT_ID.test(trimmed) ? undefined : "invalid_agent_id_format";
}

/** What `POST /message` takes. Unknown fields are ignored; an unknown `type` is a bad request. */
export const ClientMessage = z
  .discriminatedUnion("type", [
    z.object({ type: z.literal("chat"), ...chat }),
    z.object({ type: z.literal("image"), ...chat }),
    z.object({ type: z.literal("abort"), ...target }),
    /** Its `agentId` is checked by the session, so that each fault has its own code. */
    z.object({ type: z.literal("switch_agent"), ...target, agentId: z.string().max(1_024) }),
    z.object({
      type: z.literal("tool_confirmation_response"),
      ...target,
      requestId: RequestId,
      response: ConfirmationResponse,
    }),
    z.object({
      type: z.literal("user_question_response"),
      ...target,
      requestId: RequestId,
      response: QuestionResponse,
    }),
    z.object({ type: z.literal("pause"), ...target }),
    z.object({ type: z.literal("resume"), ...target }),
    z.object({ type: z.literal("archive"), ...target }),
    z.object({ type: z.literal("ping"), ...target }),
    z.object({ type: z.literal("heartbeat"), ...target }),
  ])
  .meta({ id: "ClientMessage" });
export type ClientMessage = z.infer<typeof ClientMessage>;
