import type { LanguageModel, LanguageModelUsage, ModelMessage } from "ai";
import type { AiSdkAdapter } from "../config/adapter.ts";
import type { AgentEntry } from "../config/catalog.ts";
import { AppError } from "../protocol/errors.ts";
import type { Usage } from "../protocol/message.ts";
import { cleanText } from "../protocol/text.ts";
import type { Agent, Part, RunControl, Turn } from "./agent.ts";
import { toModelMessages } from "./conversation.ts";
import { toProviderFailure } from "./provider-failure.ts";

/** How often one attempt asks a provider that cannot be reached. */
const MAX_TRIES = 3;
/** The wait after the first try, twice as long after each further one; jitter takes up to half of it off. */
const BACKOFF_MS = 500;
/** A provider that wants a longer pause than this is not asked again: the user is told when to come back. */
const MAX_WAIT_MS = 10_000;

const DEFAULT_KEYS = { openai: "OPENAI_API_KEY", anthropic: "ANTHROPIC_API_KEY", "openai-compatible": undefined };
/** Stated, because the SDK would otherwise take them from environment variables: the catalogue alone decides. */
const BASE_URLS = { openai: "https://api.openai.com/v1", anthropic: "https://api.anthropic.com/v1" };
const VISIBLE = /^[\x21-\x7e]+$/;

export type Environment = Readonly<Record<string, string | undefined>>;

interface Reply {
  readonly model: LanguageModel;
  readonly instructions: string | undefined;
  readonly messages: ModelMessage[];
}

/**
 * What keeps this adapter from working, for the operator to read: its key is missing, or is none. (A key with a line
 * break would be refused as a header, with the key in the error's text.)
 */
export function findKeyProblem(adapter: AiSdkAdapter, env: Environment): string | undefined {
  const name = keyVariable(adapter);
  if (name === undefined) return undefined;
  const key = env[name]?.trim();
  if (!key) return `the environment variable ${name} is not set`;
  return VISIBLE.test(key) ? undefined : `the environment variable ${name} holds characters that no key has`;
}

function keyVariable({ api_key_env, provider }: AiSdkAdapter): string | undefined {
  return api_key_env ?? DEFAULT_KEYS[provider];
}

/**
 * An agent that is one language model, through the AI SDK.
 *
 * It reports no `provider-session`: the conversation is told anew in each request. A response id would be of no use
 * later, since an interrupted response has none that can be continued, and the stored ones expire, belong to one key
 * and do not know what other agents said meanwhile. OpenAI is asked to store nothing.
 */
export function createAiSdkAgent(
  entry: AgentEntry,
  adapter: AiSdkAdapter,
  { env, random }: { env: Environment; random: () => number },
): Agent {
  let model: Promise<LanguageModel> | undefined;
  return {
    id: entry.id,
    yields: adapter.yields,
    restartable: adapter.restartable,
    async *run(turn: Turn, control: RunControl): AsyncGenerator<Part> {
      if (findKeyProblem(adapter, env) !== undefined) {
        throw new AppError("provider_refused", "This agent has no key for its model's provider.");
      }
      model ??= loadModel(adapter, env);
      const reply: Reply = {
        model: await model,
        instructions: entry.instructions,
        messages: await toModelMessages(turn, (image) => control.loadImage(image)),
      };

      for (let tries = 1; !control.signal.aborted; tries += 1) {
        let hasSpoken = false;
        try {
          for await (const part of streamReply(reply, control.signal)) {
            hasSpoken ||= part.type !== "usage";
            yield part;
          }
          return;
        } catch (error) {
          if (control.signal.aborted) return;
          const failure = toProviderFailure(error);
          const delayMs = nextTryAfter(failure, tries, random);
          if (hasSpoken || delayMs === undefined) throw failure;
          await control.sleep(delayMs);
        }
      }
    },
  };
}

/** How long to wait before another try, or undefined where there shall be none. */
function nextTryAfter(failure: unknown, tries: number, random: () => number): number | undefined {
  if (!(failure instanceof AppError) || failure.code !== "provider_unreachable" || tries >= MAX_TRIES) return undefined;
  const backoffMs = BACKOFF_MS * 2 ** (tries - 1) * (1 - random() / 2);
  const askedMs = typeof failure.facts["retryAfterMs"] === "number" ? failure.facts["retryAfterMs"] : 0;
  return askedMs > MAX_WAIT_MS ? undefined : Math.max(backoffMs, askedMs);
}

/**
 * One try. Throws what the SDK throws or puts into its stream. The connection is let go however this ends. A provider
 * that falls silent is given up by `fetch` itself after five minutes.
 */
async function* streamReply({ model, instructions, messages }: Reply, signal: AbortSignal): AsyncGenerator<Part> {
  const { streamText } = await import("ai");
  const connection = new AbortController();
  const letGo = () => connection.abort(new Error("The reply is not wanted any more."));
  signal.addEventListener("abort", letGo, { once: true });
  if (signal.aborted) letGo();
  let hasSpoken = false;
  try {
    const { stream } = streamText({
      model,
      messages,
      ...(instructions !== undefined && { instructions }),
      abortSignal: connection.signal,
      maxRetries: 0,
      // Without one the SDK prints the error, and with it the whole request.
      onError: () => {},
      providerOptions: { openai: { store: false } },
    });
    for await (const part of stream) {
      if (part.type === "error") throw part.error;
      if (part.type === "abort") throw connection.signal.reason;
      if (part.type === "text-delta" || part.type === "reasoning-delta") {
        if (part.text === "") continue;
        hasSpoken = true;
        yield { type: part.type === "text-delta" ? "text" : "reasoning", text: cleanText(part.text) };
      }
      if (part.type === "finish") {
        const usage = toUsage(part.totalUsage);
        if (usage) yield { type: "usage", usage };
        mustBeWhole(part.finishReason, hasSpoken);
      }
    }
  } finally {
    signal.removeEventListener("abort", letGo);
    letGo();
  }
}

/** `stop`, `length` and the like end a reply in good order. */
function mustBeWhole(finishReason: string, hasSpoken: boolean): void {
  if (finishReason === "error" || finishReason === "interrupted") {
    throw new AppError("provider_unreachable", "The model's provider broke off its reply.");
  }
  if (finishReason === "content-filter" && !hasSpoken) {
    throw new AppError("provider_refused", "The model's provider filtered the reply.");
  }
}

/** `prompt_tokens` counts the cached ones too. Undefined where the provider counted nothing. */
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

/** Providers send what they like. */
function toCount(tokens: number | undefined): number {
  return Math.min(Math.max(Math.round(tokens ?? 0), 0), Number.MAX_SAFE_INTEGER);
}

async function loadModel(adapter: AiSdkAdapter, env: Environment): Promise<LanguageModel> {
  // Its warnings go to stderr past the log, once for each request.
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const { provider, model, base_url } = adapter;
  const apiKey = env[keyVariable(adapter) ?? ""]?.trim();
  switch (provider) {
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      return createOpenAI({ apiKey: apiKey!, baseURL: base_url ?? BASE_URLS.openai })(model);
    }
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic({ apiKey: apiKey!, baseURL: base_url ?? BASE_URLS.anthropic })(model);
    }
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      const key = apiKey === undefined ? {} : { apiKey };
      return createOpenAICompatible({ name: provider, baseURL: base_url!, includeUsage: true, ...key })(model);
    }
  }
}
