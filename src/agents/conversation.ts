import type { FilePart, ModelMessage } from "ai";
import type { ImageRef, Message } from "../protocol/message.ts";
import type { RunControl, Turn } from "./agent.ts";

/** What a model is told of the past: enough for any talk, and within the window of every model worth its name. */
const MAX_PAST_MESSAGES = 200;
const MAX_PAST_BYTES = 262_144;
/** An image costs a model about a thousand tokens, and a request up to 1.4 MB. The newest are told. */
const MAX_IMAGES = 8;

const GO_ON = "Your reply above was interrupted. Go on where it stopped, and repeat nothing of it.";

interface Utterance {
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly images: readonly ImageRef[];
}

/**
 * A turn as models read it: what was said before within bounds, the user's message, and what earlier attempts at this
 * turn said already. Roles alternate and the user speaks first and last: some models take nothing else.
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
 * Messages of the user and of the agent itself. Not what failed, not what still waits for its turn, and not what
 * sub-agents said: the agent told their results itself. A reply that was interrupted was heard, so it counts.
 */
function isTold({ role, status, agent, content, images }: Message): boolean {
  if (role !== "user" && role !== "assistant") return false;
  if (status === "error" || status === "queued" || agent?.kind === "sub") return false;
  return content !== "" || (images?.length ?? 0) > 0;
}

/** The newest messages that fit, none left out between them. A reply without its question is left out at the front. */
function newestWithin(messages: readonly Message[]): readonly Message[] {
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

/** Messages of one role that follow each other become one. */
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
