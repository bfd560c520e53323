import type { FilePart, ModelMessage } from "ai";
import { DEFAULT_KEPT_TURNS } from "../config/catalog/adapter.ts";
import { heardUnits } from "../protocol/heard.ts";
import { type ImageRef, isForModel, type Message } from "../protocol/message.ts";
import type { RunControl, Summary, Turn } from "./agent.ts";

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
 * A turn as a request to a model: the summary of the oldest messages, the bounded history, the user's message, and the
 * text of earlier attempts at this turn. Roles alternate, and the first and the last message are the user's: some
 * models reject anything else.
 *
 * @param keptTurns the newest turns that the request contains also if the summary covers them
 */
export async function toModelMessages(
  turn: Turn,
  loadImage: RunControl["loadImage"],
  keptTurns: number = DEFAULT_KEPT_TURNS,
): Promise<ModelMessage[]> {
  const isOfThisTurn = ({ role, runId }: Message) => role === "assistant" && runId === turn.runId;
  const history = turn.history.filter((message) => message.id !== turn.input.id && isForModel(message));
  const said = history.filter(isOfThisTurn);
  const past = history.filter((message) => !isOfThisTurn(message));
  const { summary } = turn;
  const recent = summary ? uncovered(turn, past, keptTurns) : newestWithin(past);
  const messages = [...asHeard(recent), turn.input, ...said];
  const utterances = messages.map(toUtterance);
  if (summary) utterances.unshift({ role: "user", text: toNote(summary), images: [] });
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
 * Of these messages of a turn's history: those that its summary does not cover, and at least the newest turns; of those
 * the newest that fit.
 * @param past messages of `turn.history`, in its order
 */
export function uncovered(turn: Turn, past: readonly Message[], keptTurns: number): readonly Message[] {
  // The last covered message may be one that no request to a model includes.
  const last = turn.history.findLastIndex(({ id }) => id === turn.summary?.upTo);
  const covered = new Set(turn.history.slice(0, last + 1));
  const first = past.findIndex((message) => !covered.has(message));
  const questions = past.flatMap(({ role }, index) => (role === "user" ? [index] : []));
  const kept = keptTurns === 0 ? past.length : (questions.at(-keptTurns) ?? 0);
  return newestThatFit(past.slice(Math.min(first < 0 ? past.length : first, kept)));
}

/** What a model reads in place of the messages that a summary covers. */
export function toNote({ text }: Summary): string {
  return `What was said before, in short:\n<summary>\n${text}\n</summary>`;
}

/** The newest messages that fit, without gaps. Replies at the front whose question does not fit are left out. */
export function newestWithin(messages: readonly Message[]): readonly Message[] {
  const newest = newestThatFit(messages);
  const first = newest.findIndex(({ role }) => role !== "assistant");
  return first < 0 ? [] : newest.slice(first);
}

function newestThatFit(messages: readonly Message[]): readonly Message[] {
  let bytes = 0;
  let first = messages.length;
  while (first > 0 && messages.length - first < MAX_PAST_MESSAGES) {
    bytes += Buffer.byteLength(messages[first - 1]!.content);
    if (bytes > MAX_PAST_BYTES) break;
    first -= 1;
  }
  return messages.slice(first);
}

function toUtterance({ role, content, images = [] }: Message): Utterance {
  return { role: role === "assistant" ? role : "user", text: content, images };
}

const UNPLAYED = "[The user interrupted here and did not hear the rest.]";
const WORDS = new Intl.Segmenter(undefined, { granularity: "word" });

/**
 * Messages as their listener knows them: a reply that was interrupted while it was spoken ends with the last whole word
 * that was heard, and a mark; what its turn would have said then is left out. Other messages are unchanged.
 */
export function asHeard(messages: readonly Message[]): Message[] {
  const heard = heardUnits(messages);
  return messages.flatMap((message, index) => {
    const { content, playedUpTo } = message;
    const units = heard[index]!;
    if (units >= content.length) return message;
    if (playedUpTo === undefined) return [];
    const begun = WORDS.segment(content).containing(units)?.index ?? units;
    return { ...message, content: `${content.slice(0, begun).trimEnd()} ${UNPLAYED}`.trimStart() };
  });
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
