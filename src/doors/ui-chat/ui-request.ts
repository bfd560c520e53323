import { hash } from "node:crypto";
import { z } from "zod";
import type { Chat } from "../../gateway/chat-commands.ts";
import { ImageInput, MAX_IMAGES } from "../../protocol/client-message.ts";
import { AppError } from "../../protocol/errors.ts";
import { AgentId, MessageId, Name, RequestId, SessionId } from "../../protocol/ids.ts";
import {
  type Answer,
  ConfirmationResponse,
  confirmationAnswer,
  QuestionResponse,
  questionAnswer,
} from "../../protocol/interaction.ts";
import { idText } from "../../shared/id-text.ts";
import { cleanText, cutText } from "../../shared/text.ts";
import { mayBeEmpty } from "../absent.ts";

/** The part type of an agent's question. The page answers it as the output of a tool. */
export const QUESTION_TOOL = "user_question";

const Part = z.looseObject({ type: z.string() });
type Part = z.infer<typeof Part>;
const UiMessage = z.looseObject({ role: z.string().max(64), parts: z.array(Part) });
type UiMessage = z.infer<typeof UiMessage>;

/**
 * The body that `useChat` posts. It contains the whole conversation; only the last message is used, because the session
 * has the others.
 */
export const UiChatBody = z
  .object({
    id: SessionId.meta({ description: "the session; it is created if there is none" }),
    messages: z.array(z.unknown()).min(1),
    trigger: z.enum(["submit-message", "regenerate-message"]).optional(),
    messageId: z.string().max(256).nullish(),
    agentId: mayBeEmpty(AgentId),
    userId: mayBeEmpty(Name),
    zone: mayBeEmpty(Name),
    workspaceId: mayBeEmpty(Name),
  })
  .meta({ id: "UiChatRequest" });
export type UiChatBody = z.infer<typeof UiChatBody>;

/** A message of the user. `isRepeated`: it replaces the message with its id and all messages after that one. */
export interface SentChat {
  chat: Chat;
  isRepeated: boolean;
  /** How much of the reply before was spoken, in UTF-16 units. */
  playedUpTo: number | undefined;
  /** Undefined: the page sends the message alone, and says nothing of the others. */
  earlier: EarlierMessages | undefined;
}

/** The messages before the last one, as the page has them. */
export interface EarlierMessages {
  /** The ids of the user's messages, in order. */
  readonly users: readonly MessageId[];
  /** These ids, and those of the replies, which are the ids of their runs. */
  readonly ids: ReadonlySet<string>;
}

/** The user's answers to the agent's questions. */
export interface SentAnswers {
  answers: Answer[];
  /** The ids of the tool parts without an output that the page has. */
  openParts: ReadonlySet<string>;
}

/** Parse the last message. @param isCut whether messages before it were left out @throws AppError `bad_request` */
export function readLast({ messages, trigger, messageId }: UiChatBody, isCut = false): SentChat | SentAnswers {
  const read = UiMessage.safeParse(messages.at(-1));
  if (!read.success) throw fault("", "is not a message of the user interface");
  const { role, parts } = read.data;
  const isRegenerated = trigger === "regenerate-message";
  if (role === "assistant" && !isRegenerated) return { answers: readAnswers(parts), openParts: openPartsOf(parts) };
  if (role !== "user")
    throw fault(".role", `is ${role}: it has to be a user's message, or a reply with an answer of the user`);
  const id = idOf(read.data["id"]);
  const chat = { ...readParts(parts), ...(id !== undefined && { id }) };
  return {
    chat,
    isRepeated: isRegenerated || !!messageId,
    playedUpTo: readPlayed(read.data["metadata"]),
    // The AI SDK's own transport names a trigger, and sends all messages.
    earlier: messages.length > 1 || (trigger !== undefined && !isCut) ? earlierOf(messages.slice(0, -1)) : undefined,
  };
}

const Listed = z.looseObject({ role: z.string(), id: z.string() });

function earlierOf(messages: readonly unknown[]): EarlierMessages {
  const users: MessageId[] = [];
  const ids = new Set<string>();
  for (const message of messages) {
    const { data } = Listed.safeParse(message);
    const id = data?.role === "user" ? idOf(data.id) : data?.id;
    if (id === undefined) continue;
    ids.add(id);
    if (data?.role === "user") users.push(id as MessageId);
  }
  return { users, ids };
}

/** A page's own metadata is ignored. */
function readPlayed(metadata: unknown): number | undefined {
  const { data } = z.looseObject({ played: z.unknown() }).safeParse(metadata);
  const played = z.int().nonnegative().nullish().safeParse(data?.played);
  if (!played.success) throw fault(".metadata.played", "says what was played, but not as a number of UTF-16 units");
  return played.data ?? undefined;
}

/** The session's id for a page's message: the same one each time, also for ids that are not valid in a session. */
function idOf(id: unknown): MessageId | undefined {
  if (typeof id !== "string" || id === "") return undefined;
  return MessageId.safeParse(id).data ?? (idText(hash("sha256", id, "base64url").slice(0, 22)) as MessageId);
}

function readParts(parts: readonly Part[]): Pick<Chat, "content" | "images"> {
  const texts: string[] = [];
  const images: ImageInput[] = [];
  for (const [index, part] of parts.entries()) {
    const { type, text, url, mediaType } = part;
    if (type === "text" && typeof text === "string") texts.push(text);
    else if (type === "file") {
      const image = ImageInput.safeParse({ data: url, mimeType: mediaType });
      if (!image.success) throw fault(`.parts.${index}`, "only images as data: URIs can be sent");
      images.push(image.data);
    }
  }
  if (images.length > MAX_IMAGES) throw fault(".parts", `has at most ${MAX_IMAGES} images`);
  return { content: cleanText(texts.join("\n")), ...(images.length > 0 && { images }) };
}

/** The user's answers in the last step of a reply. Earlier steps are already answered. */
function readAnswers(parts: UiMessage["parts"]): Answer[] {
  const from = parts.findLastIndex(({ type }) => type === "step-start") + 1;
  const answers = parts.slice(from).flatMap((part) => readApproval(part) ?? readOutput(part) ?? []);
  if (answers.length === 0) {
    throw fault("", "is a reply without an answer of the user: send a user's message, or a reply with an answer");
  }
  return answers;
}

const ENDED: ReadonlySet<unknown> = new Set(["output-available", "output-error", "output-denied"]);

function openPartsOf(parts: readonly Part[]): Set<string> {
  const isTool = ({ type }: Part) => type === "dynamic-tool" || type.startsWith("tool-");
  const open = parts.filter((part) => isTool(part) && !ENDED.has(part["state"]));
  return new Set(open.flatMap(({ toolCallId }) => (typeof toolCallId === "string" ? [toolCallId] : [])));
}

const Approval = z.object({ id: RequestId, approved: z.boolean(), reason: z.string().nullish() });

function readApproval({ state, approval }: Part): Answer | undefined {
  const read = Approval.safeParse(approval);
  if (state !== "approval-responded" || !read.success) return undefined;
  const { id, approved, reason } = read.data;
  if (approved) {
    const chosen = ConfirmationResponse.safeParse(reason).data;
    return confirmationAnswer(id, typeof chosen === "string" && chosen !== "reject" ? chosen : "approve");
  }
  if (!reason) return confirmationAnswer(id, "reject");
  return confirmationAnswer(id, { type: "reject_with_reply", reason: cleanText(cutText(reason, 16_384)) });
}

function readOutput({ type, toolName, state, toolCallId, output }: Part): Answer | undefined {
  const isQuestion = type === `tool-${QUESTION_TOOL}` || (type === "dynamic-tool" && toolName === QUESTION_TOOL);
  const id = RequestId.safeParse(toolCallId);
  if (!isQuestion || !id.success) return undefined;
  if (state === "output-error") return questionAnswer(id.data, { cancelled: true });
  if (state !== "output-available") return undefined;
  const response = QuestionResponse.safeParse(output);
  if (!response.success)
    throw fault("", "answers a question with neither a text nor {selected, customInput, cancelled}");
  return questionAnswer(id.data, response.data);
}

function fault(at: string, message: string): AppError {
  const issues = [{ path: `body.messages.-1${at}`, message }];
  return new AppError("bad_request", `The last message ${message}.`, { facts: { issues } });
}
