import type {
  LanguageModel,
  LanguageModelUsage,
  ModelMessage,
  Tool as SdkTool,
  ToolSet as SdkTools,
  TextStreamPart,
} from "ai";
import type { AiSdkAdapter } from "../config/catalog/adapter.ts";
import type { AgentEntry } from "../config/catalog/catalog.ts";
import { AppError } from "../protocol/errors.ts";
import { isTooDeep } from "../protocol/internal/json-depth.ts";
import type { FinishReason, Usage } from "../protocol/message.ts";
import { raceAborted } from "../shared/waiting.ts";
import type { Part, RunControl, Turn } from "./agent.ts";
import { mergeParts } from "./merged-parts.ts";
import { BoundedQueue } from "./process/bounded-queue.ts";
import { BrokenAnswer } from "./provider-answer.ts";
import { isFaultOfOurs } from "./provider-failure.ts";
import type { Semaphore } from "./semaphore.ts";
import { treeOf } from "./sub-agent.ts";
import { TimeoutPause, withTokenTimeout } from "./token-timeout.ts";
import { makeToolCallId } from "./tool-call-id.ts";
import { controlWithin, ToolBox } from "./tools/tool-box.ts";
import { hasTools, openTools, type ToolSource } from "./tools/tool-set.ts";

/** Concurrent calls of one step; further calls wait. */
const MAX_CONCURRENT_CALLS = 64;
/** The longest arguments of one reply, in UTF-16 units, because they are buffered before they are checked. */
const MAX_INPUT_UNITS = 1_048_576;
/** The longest arguments in the log, in UTF-16 units. */
const MAX_SHOWN_UNITS = 16_384;

/** Parts that the SDK emits before the provider has sent anything. */
const BEFORE_TOKENS: ReadonlySet<string> = new Set(["start", "start-step", "text-start", "reasoning-start", "raw"]);

/** One agent's turn, as a request to a model. */
export interface ModelReply {
  readonly entry: AgentEntry;
  readonly adapter: AiSdkAdapter;
  readonly model: Exclude<LanguageModel, string>;
  readonly messages: ModelMessage[];
  readonly turn: Turn;
  readonly source: ToolSource;
  /** The requests to providers that the node may have under way. */
  readonly requests: Semaphore;
  readonly onFault: (fault: unknown, toolName: string) => void;
}

/**
 * One try: alternate model calls and tool calls, until the model calls no tool or its steps are used up. Throws the
 * SDK's errors, including those in its stream, or `TokenTimeout`. At its end the connection is released and all tools
 * have ended.
 */
export async function* streamReply(reply: ModelReply, control: RunControl): AsyncGenerator<Part> {
  const end = new AbortController();
  const release = () => end.abort(new Error("The reply is no longer needed."));
  control.signal.addEventListener("abort", release, { once: true });
  if (control.signal.aborted) release();
  const { entry, source } = reply;
  try {
    const tools = hasTools(entry) ? await openTools(entry, source, end.signal) : undefined;
    try {
      yield* tools?.problems ?? [];
      yield* new Steps(reply, control, end.signal, [...(tools?.tools ?? [])]).play(release);
    } finally {
      release();
      await tools?.close();
    }
  } finally {
    control.signal.removeEventListener("abort", release);
    release();
  }
}

type StreamPart = TextStreamPart<SdkTools>;

/** The steps of one reply: merges the model's output with the output of its running tools. */
class Steps {
  readonly #reply: ModelReply;
  readonly #signal: AbortSignal;
  readonly #control: RunControl;
  readonly #box: ToolBox;
  /** The output of tools, each of which waits until its last part is consumed. */
  readonly #aside = new BoundedQueue<Part>(0);
  /** Reasons for which the provider's silence does not count. */
  readonly #pause = new TimeoutPause();
  /** Tool calls by the provider's id, with Interlock's id. A call starts after the run has reported it. */
  readonly #reported = new Map<string, PromiseWithResolvers<string>>();
  readonly #running = new Set<Promise<unknown>>();
  #callCount = 0;
  #inputUnits = 0;
  #isLastStep = false;
  /** The model wanted a call in the last step. */
  #isCutShort = false;
  #hasSpoken = false;
  #hasText = false;

  constructor(
    reply: ModelReply,
    control: RunControl,
    signal: AbortSignal,
    tools: ConstructorParameters<typeof ToolBox>[0]["tools"],
  ) {
    this.#reply = reply;
    this.#signal = signal;
    this.#control = controlWithin(control, signal);
    this.#box = new ToolBox({
      tools,
      turn: reply.turn,
      control: this.#control,
      approvals: treeOf(reply.entry, reply.turn).approvals,
      emit: (part) => this.#emit(part),
      onFault: reply.onFault,
    });
  }

  async *play(release: () => void): AsyncGenerator<Part> {
    const { adapter } = this.#reply;
    const parts = withTokenTimeout(await this.#open(), {
      after: this.#control.after,
      firstTokenMs: adapter.first_token_timeout,
      nextTokenMs: adapter.next_token_timeout,
      isToken: ({ type }: StreamPart) => !BEFORE_TOKENS.has(type),
      isBeginning: ({ type }: StreamPart) => type === "start-step",
      pause: this.#pause,
    });
    try {
      for await (const part of mergeParts(parts, this.#aside)) {
        if (part.from === "queue") yield* this.#paused(part.item);
        else yield* this.#convert(part.item);
      }
    } finally {
      release();
      this.#aside.discard();
      await Promise.allSettled(this.#running);
      // Not awaited, because it settles with the provider's last part.
      parts.return().catch(() => {});
    }
  }

  async #open(): Promise<AsyncIterable<StreamPart>> {
    // The usual `streamText` keeps each part until the end of the reply, for readers that come later.
    const { experimental_streamTextLowMemory: streamText, isStepCount, wrapLanguageModel } = await import("ai");
    const { messages, entry } = this.#reply;
    const tools = await this.#sdkTools();
    const hasAny = Object.keys(tools).length > 0;
    const { stream } = streamText({
      model: wrapLanguageModel({
        model: this.#reply.model,
        middleware: { wrapStream: ({ doStream }) => this.#withSlot(doStream) },
      }),
      messages,
      ...(entry.instructions !== undefined && { instructions: entry.instructions }),
      ...(hasAny && {
        tools,
        stopWhen: isStepCount(entry.maxSteps),
        toolCallConcurrency: MAX_CONCURRENT_CALLS,
        prepareStep: async ({ stepNumber }: { stepNumber: number }) => {
          if (stepNumber > 0) await this.#untilMayAct();
          // The last step allows only text, because the model would not get the result of a call in it.
          this.#isLastStep = stepNumber === entry.maxSteps - 1;
          return this.#isLastStep ? { toolChoice: "none" as const } : {};
        },
      }),
      abortSignal: this.#signal,
      maxRetries: 0,
      // Without a handler the SDK prints the error together with the whole request.
      onError: () => {},
      providerOptions: { openai: { store: false } },
    });
    return stream;
  }

  /**
   * A request, as soon as the node has a permit for it. It keeps the permit until its reply was read or is no longer
   * needed, and not while its tools run, so that sub-agents never wait for their callers.
   */
  async #withSlot<Answer extends { stream: ReadableStream }>(request: () => PromiseLike<Answer>): Promise<Answer> {
    this.#pause.begin();
    const release = await this.#reply.requests.acquire(this.#signal).finally(() => this.#pause.end());
    this.#signal.addEventListener("abort", release, { once: true });
    try {
      const answer = await request();
      const whole = new TransformStream({ flush: release });
      return { ...answer, stream: answer.stream.pipeThrough(whole) };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #untilMayAct(): Promise<void> {
    this.#pause.begin();
    try {
      await this.#control.untilMayAct();
    } finally {
      this.#pause.end();
    }
  }

  async #sdkTools(): Promise<SdkTools> {
    const { dynamicTool, jsonSchema } = await import("ai");
    const entries = [...this.#box.tools].map(({ name, description, inputSchema }): [string, SdkTool] => [
      name,
      dynamicTool({
        description,
        // The tool itself validates the arguments, and its answer names the faults.
        inputSchema: jsonSchema(inputSchema),
        execute: (input, { toolCallId }) => this.#runTool(toolCallId, name, input),
      }),
    ]);
    return Object.fromEntries(entries);
  }

  async #runTool(providerCallId: string, name: string, input: unknown): Promise<string> {
    const work = this.#callTool(providerCallId, name, input);
    this.#running.add(work);
    try {
      return await work;
    } finally {
      this.#running.delete(work);
    }
  }

  /** Wait until the call is in the log, so that its consequences come after it. */
  async #callTool(providerCallId: string, name: string, input: unknown): Promise<string> {
    const reported = this.#reportedOf(providerCallId);
    this.#pause.begin();
    try {
      const toolCallId = await raceAborted(this.#signal, () => reported.promise);
      const { content, isError } = await this.#box.call(toolCallId, name, input);
      const status = isError ? "error" : "success";
      await this.#emit({ type: "tool-result", toolCallId, toolName: name, content, status });
      return content;
    } finally {
      this.#pause.end();
      this.#reported.delete(providerCallId);
    }
  }

  #reportedOf(providerCallId: string): PromiseWithResolvers<string> {
    let reported = this.#reported.get(providerCallId);
    if (!reported) {
      reported = Promise.withResolvers();
      this.#reported.set(providerCallId, reported);
    }
    return reported;
  }

  async #emit(part: Part): Promise<void> {
    this.#aside.push(part, 0);
    await this.#aside.consumed();
  }

  /** While no part is requested, the provider's timeout is paused. */
  *#paused(part: Part): Generator<Part> {
    this.#pause.begin();
    try {
      yield part;
    } finally {
      this.#pause.end();
    }
  }

  *#convert(part: StreamPart): Generator<Part> {
    switch (part.type) {
      case "error":
        if (!this.#isLastStep || !isForbiddenCall(part.error)) throw errorOfStream(part.error);
        this.#isCutShort = true;
        return;
      case "abort":
        throw this.#signal.reason;
      case "text-delta":
      case "reasoning-delta":
        if (part.text === "") return;
        this.#hasSpoken = true;
        this.#hasText ||= part.type === "text-delta";
        yield { type: part.type === "text-delta" ? "text" : "reasoning", text: part.text };
        return;
      case "tool-input-delta":
        this.#inputUnits += part.delta.length;
        if (this.#inputUnits > MAX_INPUT_UNITS) {
          throw new AppError("too_large", "The model wrote more than 1 MiB of arguments for its tools.");
        }
        return;
      case "tool-call":
        this.#hasSpoken = true;
        yield* this.#callParts(part);
        return;
      case "finish-step": {
        yield* this.#usageParts(toUsage(part.usage));
        return;
      }
      case "finish":
        if (this.#isCutShort) return yield { type: "finish", reason: "length" };
        yield* this.#finishParts(part);
        return;
      default:
    }
  }

  *#usageParts(usage: Usage | undefined): Generator<Part> {
    if (!usage) return;
    // The caller of a sub-agent counts its tokens.
    const { tree } = this.#reply.turn;
    if (tree?.path.length === 1) tree.budget.countTokens(usage);
    yield { type: "usage", usage };
  }

  *#finishParts({ finishReason, rawFinishReason: word }: Extract<StreamPart, { type: "finish" }>): Generator<Part> {
    mustBeWhole(finishReason, word, this.#hasSpoken);
    const reason = finishOf(finishReason, word, this.#hasText);
    if (reason) yield { type: "finish", reason, ...(reason === "incomplete" && { word }) };
  }

  *#callParts(call: Extract<StreamPart, { type: "tool-call" }>): Generator<Part> {
    const { toolCallId: providerCallId, toolName, input, invalid } = call;
    const id = this.#newCallId();
    const name = toolName.slice(0, 256) || "unnamed";
    if (isTooDeep(input)) throw new AppError("too_large", "The model nested the arguments of a tool too deeply.");
    const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
    // The tool box refuses longer arguments, and the log shows their beginning.
    const args = text.length > MAX_SHOWN_UNITS ? JSON.stringify({ cut: text.slice(0, 1_024) }) : text;
    yield { type: "tool-call", call: { toolCallId: id, function: { name, arguments: args } } };
    if (!invalid) return this.#reportedOf(providerCallId).resolve(id);
    const isKnown = [...this.#box.tools].some((tool) => tool.name === toolName);
    const content = isKnown ? "The arguments are not JSON." : "There is no such tool.";
    yield { type: "tool-result", toolCallId: id, toolName: name, content, status: "error" };
  }

  #newCallId(): string {
    const { runId, attempt, input } = this.#reply.turn;
    this.#callCount += 1;
    return makeToolCallId(runId, attempt, input.id, this.#reply.entry.id, this.#callCount);
  }
}

/** The model called a tool although it may call none. Some providers ignore that, and the SDK makes no such call. */
const isForbiddenCall = (error: unknown): boolean =>
  error instanceof Error && error.name === "AI_ToolChoiceViolationError";

/** Why a reply that ended normally is incomplete; undefined for a complete reply. */
function finishOf(finishReason: string, word: string | undefined, hasText: boolean): FinishReason | undefined {
  if (finishReason === "length") return "length";
  if (finishReason === "content-filter") return "content_filter";
  if (finishReason === "error" || (finishReason === "other" && isUnknown(word))) return "incomplete";
  return hasText ? undefined : "empty";
}

/** Words of whole replies that the SDK has no name for. */
const WHOLE = new Set(["stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_use", "completed"]);

const isUnknown = (word: string | undefined): boolean => word !== undefined && !WHOLE.has(word.toLowerCase());

/** @throws AppError for a reply that was cut off without a word of the provider's, or before its first text */
function mustBeWhole(finishReason: string, word: string | undefined, hasSpoken: boolean): void {
  const isCut = finishReason === "error" || finishReason === "interrupted";
  if (isCut && (word === undefined || finishReason === "interrupted")) {
    throw new AppError("provider_unreachable", "The model's provider cut off its reply.");
  }
  if (hasSpoken) return;
  if (isCut || (finishReason === "other" && isUnknown(word))) {
    throw new AppError("provider_unreachable", `The model's provider gave no reply (${String(word).slice(0, 64)}).`);
  }
  if (finishReason === "content-filter") {
    throw new AppError("provider_refused", "The model's provider filtered the reply.");
  }
}

/** An error in the stream of a reply is the provider's, also where the SDK stumbled over what it sent. */
function errorOfStream(error: unknown): unknown {
  if (error instanceof AppError || error instanceof BrokenAnswer || !isFaultOfOurs(error)) return error;
  return new BrokenAnswer("what the SDK cannot read", error);
}

/** `prompt_tokens` includes cached tokens. Undefined if the provider reported no counts. */
function toUsage({ inputTokens, inputTokenDetails, outputTokens }: LanguageModelUsage): Usage | undefined {
  if (inputTokens === undefined && outputTokens === undefined) return undefined;
  const prompt = toCount(inputTokens);
  const completion = toCount(outputTokens);
  const written = toCount(inputTokenDetails.cacheWriteTokens);
  const read = toCount(inputTokenDetails.cacheReadTokens);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    ...(written > 0 && { cache_creation_input_tokens: written }),
    ...(read > 0 && { cache_read_input_tokens: read }),
  };
}

/** Providers send different fields. */
function toCount(tokens: number | undefined): number {
  return Math.min(Math.max(Math.round(tokens ?? 0), 0), Number.MAX_SAFE_INTEGER);
}
