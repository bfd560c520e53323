import type { FilePart, ModelMessage } from "ai";
import type { ImageRef, Message } from "../protocol/message.ts";
import type { RunControl, Turn } from "./agent.ts";

/** The longest history in a request: it fits the context window of common models. */
const MAX_PAST_MESSAGES = 200;
const MAX_PAST_BYTES = 262_144;
/** Images in a request, the newest ones. Each costs about a thousand tokens and up to 1.4 MB. */
const MAX_IMAGES = 8;

const GO_ON = "Your reply above was interrupted. Go on where it stopped, and repeat nothing of it.";

interface Utterance {
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly images: readonly ImageRef[];
}

/**
 * A turn as a request to a model: the bounded history, the user's message, and the text of earlier attempts at this turn.
 * Roles alternate, and the first and the last message are the user's: some models reject anything else.
 */
export async function toModelMessages(turn: Turn, loadImage: RunControl["loadImage"]): Promise<ModelMessage[]> {
  const told = turn.history.filter((message) => message.id !== turn.input.id && isTold(message));
  const said = told.filter((message) => message.role === "assistant" && message.runId === turn.runId);
  const past = newestWithin(told.filter((message) => !said.includes(message)));
  const messages = [...past, turn.input, ...said];
  const utterances = messages.map(toUtterance);
  if (said.length > 0) utterances.push({ role: "user", text: GO_ON, images: [] });

  const newestImages = new Set(utterances.flatMap(({ images }) => images).slice(-MAX_IMAGES));
  const toFile = async (image: ImageRef): Promise<FilePart> => ({
    type: "file",
    mediaType: image.mimeType,
    data: await loadImage(image),
  });
  return Promise.all(
    alternate(utterances).map(async ({ role, text, images }): Promise<ModelMessage> => {
      if (role === "assistant") return { role, content: text };
      const files = await Promise.all(images.filter((image) => newestImages.has(image)).map(toFile));
      if (files.length === 0) return { role, content: text };
      return { role, content: text === "" ? files : [{ type: "text", text }, ...files] };
    }),
  );
}

/**
 * Whether a request to a model includes the message: messages of the user and of the session's agents, interrupted replies
 * too. Failed and queued messages are left out, and so are those of sub-agents, whose results the agent's own messages
 * report.
 */
export function isTold({ role, status, agent, content, images }: Message): boolean {
  if (role !== "user" && role !== "assistant") return false;
  if (status === "error" || status === "queued" || agent?.kind === "sub") return false;
  return content !== "" || (images?.length ?? 0) > 0;
}

/** The newest messages that fit, without gaps. Replies at the front whose question does not fit are left out. */
export function newestWithin(messages: readonly Message[]): readonly Message[] {
  let bytes = 0;
  let first = messages.length;
  while (first > 0 && messages.length - first < MAX_PAST_MESSAGES) {
    bytes += Buffer.byteLength(messages[first - 1]!.content);
    if (bytes > MAX_PAST_BYTES) break;
    first -= 1;
  }
  while (messages[first]?.role === "assistant") first += 1;
  return messages.slice(first);
}

function toUtterance({ role, content, images = [] }: Message): Utterance {
  return { role: role === "assistant" ? role : "user", text: content, images };
}

/** Merge consecutive messages of one role. */
function alternate(utterances: readonly Utterance[]): Utterance[] {
  const merged: Utterance[] = [];
  for (const next of utterances) {
    const last = merged.at(-1);
    if (last?.role !== next.role) merged.push(next);
    else
      merged[merged.length - 1] = {
        role: last.role,
        text: [last.text, next.text].filter(Boolean).join("\n\n"),
        images: [...last.images, ...next.images],
      };
  }
  return merged;
}
