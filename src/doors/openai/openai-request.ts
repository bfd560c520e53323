import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { Catalog } from "../../config/catalog/catalog.ts";
import { acceptsTurns, findAgent, listAgents, suggestAgent } from "../../config/catalog/catalog.ts";
import { refuseMisspelt } from "../../gateway/http/near-keys.ts";
import { ImageInput, MAX_CONTENT, MAX_IMAGES } from "../../protocol/client-message.ts";
import { AppError } from "../../protocol/errors.ts";
import { type AgentId, Name, RequestId, SessionId } from "../../protocol/ids.ts";
import {
  type Answer,
  ConfirmationResponse,
  confirmationAnswer,
  QuestionResponse,
  questionAnswer,
} from "../../protocol/interaction.ts";
import { parseJson } from "../../shared/json.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { cleanText, cutText, toOneLine } from "../../shared/text.ts";
import { isAbsent, mayBeEmpty } from "../absent.ts";
import type { RunAddress, WantedTurn } from "../live-runs.ts";
import type { RunInteraction } from "../run-summary.ts";
import { unsupported } from "./openai-problem.ts";

/** The parts that both of OpenAI's request formats have in common. */
export const COMMON = {
  model: z.string().min(1).max(128).meta({ description: "an agent of the catalogue, or auto" }),
  stream: z.boolean().nullish(),
  user: mayBeEmpty(Name).meta({ description: "the user, as `metadata.user`" }),
  metadata: z.record(z.string(), z.unknown()).nullish().meta({
    description:
      "`session`, `user`, `zone`, `workspace` and `played`; others are ignored, unless one is a misspelling of one of these that is absent",
  }),
  tools: z.array(z.unknown()).nullish().meta({ description: "not supported: agents have their own tools" }),
  tool_choice: z.unknown().optional().meta({ description: "`auto` and `none`: agents choose among their own tools" }),
};

type CommonRequest = FastifyRequest<{ Body: z.infer<z.ZodObject<typeof COMMON>> }>;

/** A message before the last one, from either request format. */
export interface EarlierMessage {
  readonly role: string;
  readonly content: unknown;
  /** The location of the content in the request. */
  readonly param: string;
}

/** The session that the client refers to, and its owner. */
export type RequestedSession = Pick<WantedTurn, "sessionId" | "userId" | "zone" | "workspaceId" | "playedUpTo">;

/** What a request asks for: answers to an agent's questions, or a new turn. */
export type OpenAiTurn =
  | { readonly sessionId: SessionId; readonly answers: readonly Answer[] }
  | { readonly chat: WantedTurn["chat"]; readonly title: string | undefined; readonly sentence?: string };

const Named = z.object({
  session: SessionId.optional(),
  user: Name.optional(),
  zone: Name.optional(),
  workspace: Name.optional(),
  // Values of `metadata` are texts.
  played: z
    .union([
      z.int().nonnegative(),
      z
        .string()
        .regex(/^\d{1,15}$/)
        .transform(Number),
    ])
    .optional(),
});

/** What says where a turn is: without it, the turn would be a conversation that competes with no other. */
const Place = Named.omit({ played: true });
const HEADER = "interlock-";

/**
 * Refuse a misspelt place.
 * @param named what the request names, wherever it is
 * @throws AppError `bad_request`
 */
function refuseMisspeltPlace(
  { body, headers }: Pick<CommonRequest, "body" | "headers">,
  named: Readonly<Record<string, unknown>>,
): void {
  const isGiven = (key: string) => named[key] !== undefined;
  refuseMisspelt("body.metadata", body.metadata, Place, isGiven);
  const sent = Object.entries(headers).flatMap(([key, value]) =>
    key.startsWith(HEADER) ? [[key.slice(HEADER.length), value]] : [],
  );
  refuseMisspelt("headers", Object.fromEntries(sent), Place, isGiven);
}

/** Read what both formats have in common. @throws AppError for what agents do not support, and for an unknown model */
export function readCommon(
  { catalog, clock }: { catalog: () => Catalog; clock: Clock },
  request: CommonRequest,
  format: { readonly param: string; readonly type: string | undefined },
): { agentId: AgentId | undefined; where: RequestedSession; createdAt: number } {
  const { tools, tool_choice: choice, model } = request.body;
  if (tools?.length) throw unsupported("tools", "Agents have their own tools; a client cannot add any.");
  if (![undefined, null, "auto", "none"].includes(choice as string)) {
    throw unsupported("tool_choice", "Agents choose among their own tools; a client cannot demand a call.");
  }
  if ((format.type ?? "text") !== "text") throw unsupported(format.param, "Agents answer with text only.");
  const where = readWhereabouts(request);
  return {
    agentId: isAuto(catalog(), model) ? undefined : readModel(catalog(), model, where.workspaceId),
    where,
    createdAt: Math.floor(clock.now() / 1_000),
  };
}

/**
 * Read from `metadata` and `user`, else from the headers `Interlock-Session`, `-User`, `-Zone`, `-Workspace` and
 * `-Played`.
 */
function readWhereabouts({ body, headers }: CommonRequest): RequestedSession {
  const named: Record<string, unknown> = {};
  for (const key of Object.keys(Named.shape)) {
    const field = key === "user" ? body.user : undefined;
    named[key] = [body.metadata?.[key], field, headers[`${HEADER}${key}`]].find((value) => !isAbsent(value));
  }
  refuseMisspeltPlace({ body, headers }, named);
  const { session, user, zone, workspace, played } = parsed(Named.safeParse(named), "metadata");
  if (zone !== undefined && user === undefined) {
    throw new AppError("bad_request", "The request names a zone without a user. Add the user.", {
      facts: { param: "metadata.zone" },
    });
  }
  return { sessionId: session, userId: user, zone, workspaceId: workspace, playedUpTo: played };
}

/** The model that stands for the agent that hears the sentence, unless an agent has this name. */
export const AUTO = "auto";

/** Whether the request leaves the agent to the session, or for a new one to `routing`. */
const isAuto = ({ agents }: Catalog, model: string): boolean => model === AUTO && !agents.has(AUTO);

/** The model that an answer names: the agent of a request, or the one that hears its sentence. */
export const modelOf = (agentId: AgentId | undefined, { routed }: RunAddress): string =>
  agentId ?? routed?.agent ?? AUTO;

/** @throws AppError `agent_not_found`, shown to clients as `model_not_found` */
export function readModel(catalog: Catalog, model: string, workspaceId?: string): AgentId {
  const agent = findAgent(catalog, model, workspaceId);
  if (agent?.enabled && acceptsTurns(agent)) return agent.id;
  const availableAgents = listAgents(catalog, workspaceId);
  const models = availableAgents.filter(({ id }) => acceptsTurns(catalog.agents.get(id)!));
  const facts = { availableAgents, code: "model_not_found", param: "model" };
  throw new AppError(
    "agent_not_found",
    `The model ${JSON.stringify(model)} does not exist${suggestAgent(model, models) || "."}`,
    { facts },
  );
}

const Parts = z.array(z.looseObject({ type: z.string() })).max(256);

/** The types of content that have a text. */
const TEXTS: ReadonlySet<string> = new Set(["text", "input_text", "output_text"]);

/** The text and the images of a message's content. @param param the location of the content in the request */
export function readContent(content: unknown, param: string): Pick<WantedTurn["chat"], "content" | "images"> {
  if (typeof content === "string") return { content: cleanText(content) };
  const texts: string[] = [];
  const images: ImageInput[] = [];
  for (const [index, { type, ...part }] of parsed(Parts.safeParse(content), param).entries()) {
    const at = `${param}.${index}`;
    if (TEXTS.has(type)) texts.push(parsed(z.string().safeParse(part["text"]), `${at}.text`));
    else if (type === "image_url") {
      const { url } = parsed(z.looseObject({ url: z.unknown() }).safeParse(part["image_url"]), `${at}.image_url`);
      images.push(readImage(url, `${at}.image_url.url`));
    } else if (type === "input_image") images.push(readImage(part["image_url"], `${at}.image_url`));
    else throw unsupported(`${at}.type`, `Content of the type ${JSON.stringify(type.slice(0, 64))} is not supported.`);
  }
  if (images.length > MAX_IMAGES) {
    throw new AppError("bad_request", `The message has more than ${MAX_IMAGES} images.`, { facts: { param } });
  }
  return { content: cleanText(texts.join("\n")), ...(images.length > 0 && { images }) };
}

/** The error for a last message that is neither the user's nor an answer. @param role its role, or its type */
export function notOfUser(role: string | null | undefined, param: string): AppError {
  const found = role == null ? "has no role" : `is of ${JSON.stringify(role)}`;
  const message = `The last message ${found}: it must be a user message, or answer a call of the agent.`;
  return new AppError("bad_request", message, { facts: { param } });
}

function readImage(url: unknown, param: string): ImageInput {
  if (typeof url !== "string" || !url.startsWith("data:")) {
    throw unsupported(param, "Images can be sent only as data: URIs.");
  }
  const image = ImageInput.safeParse({ data: url });
  if (image.success) return image.data;
  throw invalid(param, image.error);
}

/** The longest part of the earlier conversation that is sent with a message, in UTF-16 units: its end. */
const MAX_EARLIER = MAX_CONTENT / 2;

const SPEAKERS: { readonly [role: string]: string } = { user: "User", assistant: "Assistant" };

/** A turn with the conversation before it, for a session that does not have that conversation. */
export function turnWithEarlier(earlier: readonly EarlierMessage[], chat: WantedTurn["chat"]): OpenAiTurn {
  const { content } = chat;
  return { chat: { ...chat, content: withEarlier(earlier, content) }, title: titleFrom(content), sentence: content };
}

function withEarlier(earlier: readonly EarlierMessage[], message: string): string {
  const lines: string[] = [];
  let units = 0;
  for (const { role, content, param } of earlier.toReversed()) {
    const text = content === null || content === undefined ? "" : textOf(content, param);
    if (text.trim() === "") continue;
    const line = `${SPEAKERS[role] ?? "Instructions"}: ${text}`;
    units += line.length;
    if (units > MAX_EARLIER) break;
    lines.unshift(line);
  }
  if (lines.length === 0) return message;
  return ["The conversation so far:", ...lines, "The user's message now:", message].join("\n\n");
}

/** The text of an earlier message. Other content is left out, because it belongs to a finished turn. */
function textOf(content: unknown, param: string): string {
  if (typeof content === "string") return cleanText(content);
  const parts = parsed(Parts.safeParse(content), param);
  return cleanText(parts.map(({ text }) => (typeof text === "string" ? text : "")).join("\n"));
}

/** The message without its preamble; a session's title is made from it. */
const titleFrom = (content: string): string | undefined => cutText(toOneLine(content), 60).trim() || undefined;

/** The id under which a client answers a question or a confirmation. It contains the session's id. */
export const interactionId = (sessionId: SessionId, { kind, requestId }: RunInteraction): string =>
  `${kind}.${sessionId}.${requestId}`;

/** The function that the client calls to put a question to its user. */
export const FUNCTION_OF: { readonly [kind in RunInteraction["kind"]]: string } = {
  question: "user_question",
  confirmation: "tool_confirmation",
};

/** A question or confirmation as the arguments of a function. */
export function argumentsOf({ kind, data }: RunInteraction): string {
  if (kind === "question") return JSON.stringify(data);
  const { toolCall, availableOptions, ...rest } = data;
  const { name, arguments: text } = toolCall.function;
  return JSON.stringify({ tool: name, arguments: text, options: availableOptions.map(({ value }) => value), ...rest });
}

interface ReadAnswer {
  readonly sessionId: SessionId;
  readonly answer: Answer;
}

/** Parse an answer from the client. @throws AppError `bad_request` for an unknown id */
export function readToolAnswer(id: unknown, output: unknown, param: string): ReadAnswer {
  const [kind, session, request] = typeof id === "string" ? id.split(".") : [];
  const sessionId = SessionId.safeParse(session);
  const requestId = RequestId.safeParse(request);
  const isKnown = kind === "question" || kind === "confirmation";
  if (!isKnown || !sessionId.success || !requestId.success) {
    throw new AppError(
      "bad_request",
      "The request answers a call that is no question or confirmation of an agent. Leave it out.",
      {
        facts: { param },
      },
    );
  }
  const text = cleanText(typeof output === "string" ? output : JSON.stringify(output ?? ""));
  const about = requestId.data;
  if (kind === "confirmation") {
    const verdict = ConfirmationResponse.safeParse(text.trim()).data;
    // Every answer except an explicit approval is a rejection; the agent receives the text as the reason.
    const answer = confirmationAnswer(about, verdict ?? { type: "reject_with_reply", reason: cutText(text, 16_384) });
    return { sessionId: sessionId.data, answer };
  }
  const response = parsed(QuestionResponse.safeParse(fromJson(text)), param);
  return { sessionId: sessionId.data, answer: questionAnswer(about, response) };
}

/** A turn of all answers that are for the first one's session. */
export function turnOfAnswers(read: readonly ReadAnswer[]): OpenAiTurn {
  const [{ sessionId }] = read as [ReadAnswer];
  return { sessionId, answers: read.filter((each) => each.sessionId === sessionId).map(({ answer }) => answer) };
}

/** Parse a text that contains a JSON object; return other text unchanged. */
const fromJson = (text: string): unknown => (text.startsWith("{") && parseJson(text)) || text;

/** @throws AppError `bad_request` that names the parameter */
export function parsed<T>(result: z.ZodSafeParseResult<T>, param: string): T {
  if (result.success) return result.data;
  throw invalid([param, ...(result.error.issues[0]?.path ?? [])].join("."), result.error);
}

function invalid(path: string, { issues: [issue] }: z.ZodError): AppError {
  const issues = [{ path, message: issue?.message ?? "is not valid" }];
  return new AppError("bad_request", undefined, { facts: { issues } });
}
