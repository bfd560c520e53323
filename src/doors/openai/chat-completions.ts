import { z } from "zod";
import type { Routes } from "../../gateway/route-context.ts";
import { AppError, type ErrorCode } from "../../protocol/errors.ts";
import { dataFrame } from "../../protocol/frames.ts";
import type { Usage } from "../../protocol/message.ts";
import { readState } from "../../protocol/written-state.ts";
import type { RunAddress } from "../live-runs.ts";
import type { Piece, RunEvent } from "../run-reader.ts";
import type { RunTranslator } from "../run-stream.ts";
import { isMaster, type ReadOutcome, RunSummary } from "../run-summary.ts";
import { errorOf, openAiProblem, unsupported } from "./openai-problem.ts";
import {
  argumentsOf,
  COMMON,
  FUNCTION_OF,
  interactionId,
  modelOf,
  notOfUser,
  type OpenAiTurn,
  readCommon,
  readContent,
  readToolAnswer,
  turnOfAnswers,
  turnWithEarlier,
} from "./openai-request.ts";
import { ABORTED, answerWithRun, metadataOf, type OpenAiDoor, openAiRoute } from "./openai-run.ts";

const Message = z.looseObject({
  role: z.string().max(64),
  content: z.unknown(),
  tool_call_id: z.string().max(256).nullish(),
});

const Body = z
  .object({
    ...COMMON,
    messages: z.array(Message).min(1).max(4_096),
    stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
    n: z.number().nullish(),
    functions: z.array(z.unknown()).nullish().meta({ description: "not supported, like `tools`" }),
    modalities: z.array(z.string()).nullish(),
    response_format: z.looseObject({ type: z.string() }).nullish(),
  })
  .meta({ id: "ChatCompletionRequest" });
type Body = z.infer<typeof Body>;

const Answer = z.looseObject({ id: z.string(), object: z.string(), model: z.string() });

/** `POST /v1/chat/completions`: a turn of an agent, for clients of OpenAI's API. */
export function chatCompletionRoutes(app: Routes, door: OpenAiDoor): void {
  const { context } = door;
  app.post(
    "/v1/chat/completions",
    openAiRoute("createChatCompletion", "chat completions", { body: Body, answer: Answer, list: "messages" }),
    async (request, reply) => {
      const caller = context.callerOf(request);
      const { body } = request;
      if ((body.n ?? 1) !== 1) throw unsupported("n", "An agent gives only one answer.");
      if (body.functions?.length)
        throw unsupported("functions", "Agents have their own tools; a client cannot add any.");
      if (body.modalities?.some((each) => each !== "text"))
        throw unsupported("modalities", "Agents answer with text only.");
      const format = { param: "response_format", type: body.response_format?.type };
      const { agentId, where, createdAt } = readCommon(context, request, format);
      const wanted = {
        identity: await context.commands.identify(caller, request, body),
        // A client that names no session cannot return to this one.
        target: { ...where, agentId, ...(where.sessionId === undefined && { endsWithTurn: true as const }) },
        readTurn: () => readAnswers(body) ?? readChat(body, where.sessionId !== undefined),
      };
      return answerWithRun({ ...door, request, reply }, wanted, {
        isStream: body.stream === true,
        translator: (address) =>
          new ChunkTranslator(
            address,
            modelOf(agentId, address),
            createdAt,
            body.stream_options?.include_usage === true,
          ),
        whole: (address, summary) => completionOf(address, modelOf(agentId, address), createdAt, summary),
      });
    },
  );
}

/** The answers at the end of the conversation, if any. All of them are for one session. */
function readAnswers({ messages }: Body): OpenAiTurn | undefined {
  const from = messages.findLastIndex(({ role }) => role !== "tool") + 1;
  if (from === messages.length) return undefined;
  const read = messages.slice(from).map(({ tool_call_id, content }, index) => {
    const text =
      typeof content === "string" ? content : readContent(content, `messages.${from + index}.content`).content;
    return readToolAnswer(tool_call_id, text, `messages.${from + index}.tool_call_id`);
  });
  return turnOfAnswers(read);
}

/** The last message. If the client names a session, that session has the earlier ones. */
function readChat({ messages }: Body, isNamed: boolean): OpenAiTurn {
  const last = messages.length - 1;
  const { role, content } = messages[last]!;
  if (role !== "user") {
    throw notOfUser(role, `messages.${last}.role`);
  }
  const chat = readContent(content, `messages.${last}.content`);
  if (isNamed) return { chat, title: undefined };
  const earlier = messages
    .slice(0, last)
    .map((each, index) => ({ role: each.role, content: each.content, param: `messages.${index}.content` }));
  return turnWithEarlier(
    earlier.filter((each) => each.role !== "tool"),
    chat,
  );
}

const usageOf = (usage: Usage) => ({
  prompt_tokens: usage.prompt_tokens,
  completion_tokens: usage.completion_tokens,
  total_tokens: usage.total_tokens,
  prompt_tokens_details: { cached_tokens: usage.cache_read_input_tokens ?? 0 },
});

const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

type Finish = "stop" | "length" | "content_filter" | "tool_calls";

function finishOf({ openInteraction, finishReason }: RunSummary): Finish {
  if (openInteraction) return "tool_calls";
  // The words of this protocol are few, and of those for a reply that was cut `length` promises least.
  if (finishReason === "incomplete") return "length";
  return finishReason === "length" || finishReason === "content_filter" ? finishReason : "stop";
}

/** The provider's own word, as other gateways of this protocol add it. */
const nativeOf = ({ nativeFinishReason: word }: RunSummary) =>
  word === undefined ? {} : { native_finish_reason: word };

/** The question that the run waits for, as a call of a function in the client. */
function toolCallsOf(address: RunAddress, { openInteraction }: RunSummary) {
  if (!openInteraction) return [];
  const call = { name: FUNCTION_OF[openInteraction.kind], arguments: argumentsOf(openInteraction) };
  return [{ id: interactionId(address.sessionId, openInteraction), type: "function" as const, function: call }];
}

function completionOf(address: RunAddress, model: string, created: number, summary: RunSummary): object {
  const calls = toolCallsOf(address, summary);
  const thoughts = summary.items.map((item) => (item.kind === "reasoning" ? item.text : "")).join("");
  const { text } = summary;
  const message = {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    refusal: null,
    ...(thoughts !== "" && { reasoning_content: thoughts }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  return {
    id: `chatcmpl-${address.runId}`,
    object: "chat.completion",
    created,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishOf(summary), ...nativeOf(summary) }],
    usage: usageOf(summary.usage ?? NO_USAGE),
    metadata: metadataOf(address),
    ...(address.decision && { interlock: { type: "arbitration", data: address.decision } }),
  };
}

/** Whether the event is a decision, or a transition to another state. A change of the level alone is neither. */
function isChangeOfFloor({ type, data }: RunEvent): boolean {
  if (type === "arbitration") return true;
  return type === "session_transition" && readState(data.from)[0] !== readState(data.to)[0];
}

class ChunkTranslator implements RunTranslator {
  readonly #address: RunAddress;
  readonly #head: string;
  readonly #includeUsage: boolean;
  readonly #summary: RunSummary;

  constructor(address: RunAddress, model: string, created: number, includeUsage: boolean) {
    this.#address = address;
    this.#summary = new RunSummary(address.resolved);
    this.#includeUsage = includeUsage;
    const head = { id: `chatcmpl-${address.runId}`, object: "chat.completion.chunk", created, model };
    this.#head = JSON.stringify(head).slice(0, -1);
  }

  get outcome(): ReadOutcome | undefined {
    return this.#summary.outcome;
  }

  begin(): string {
    const { decision } = this.#address;
    const rest = {
      metadata: metadataOf(this.#address),
      ...(decision && { interlock: { type: "arbitration", data: decision } }),
    };
    return this.#chunk({ role: "assistant", content: "" }, rest);
  }

  piece({ agent, kind, text }: Piece): string {
    if (!isMaster(agent)) return "";
    return this.#chunk(kind === "text" ? { content: text } : { reasoning_content: text });
  }

  event(event: RunEvent): string {
    const summary = this.#summary;
    summary.addEvent(event);
    if (!summary.outcome)
      return isChangeOfFloor(event) ? this.#chunk({}, { interlock: { type: event.type, data: event.data } }) : "";
    if (summary.failure) return frameOf(openAiProblem(errorOf(summary.failure)));
    if (summary.isCancelled) return this.fail("session_archived", ABORTED);
    const calls = toolCallsOf(this.#address, summary).map((call, index) => ({ index, ...call }));
    const chunk = calls.length > 0 ? this.#chunk({ tool_calls: calls }) : "";
    return `${chunk}${this.#chunk({}, {}, finishOf(summary), nativeOf(summary))}${this.#usage()}data: [DONE]\n\n`;
  }

  fail(code: ErrorCode, message: string): string {
    const facts = message === ABORTED ? { facts: { code: "aborted" } } : {};
    return frameOf(openAiProblem(new AppError(code, message, facts)));
  }

  #usage(): string {
    if (!this.#includeUsage) return "";
    const usage = usageOf(this.#summary.usage ?? NO_USAGE);
    return dataFrame(`${this.#head},"choices":[],"usage":${JSON.stringify(usage)}}`);
  }

  #chunk(delta: object, rest: object = {}, finish: Finish | null = null, native: object = {}): string {
    const choices = JSON.stringify([{ index: 0, delta, logprobs: null, finish_reason: finish, ...native }]);
    const more = JSON.stringify(rest).slice(1, -1);
    const usage = this.#includeUsage ? ',"usage":null' : "";
    return dataFrame(`${this.#head},"choices":${choices}${usage}${more === "" ? "" : `,${more}`}}`);
  }
}

const frameOf = (data: object): string => dataFrame(JSON.stringify(data));
