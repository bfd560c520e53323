import type { AiSdkAdapter } from "../config/catalog/adapter.ts";
import { type AgentEntry, inMode } from "../config/catalog/catalog.ts";
import { AppError, type ErrorCode } from "../protocol/errors.ts";
import type { AgentId } from "../protocol/ids.ts";
import { backoffMs } from "../shared/waiting.ts";
import type { Agent, Part, RunControl, SummaryRequest, Turn } from "./agent.ts";
import { toModelMessages } from "./conversation.ts";
import { apiKeyOf, findKeyProblem, hostOf, loadModel } from "./language-model.ts";
import { type ModelReply, streamReply } from "./model-reply.ts";
import type { Environment } from "./process/program.ts";
import { type ProviderNames, toProviderFailure } from "./provider-failure.ts";
import type { Semaphore } from "./semaphore.ts";
import { treeOf } from "./sub-agent.ts";
import { SUMMARY_INSTRUCTIONS, toSummaryPrompt } from "./summary-request.ts";
import { TokenTimeout } from "./token-timeout.ts";
import type { ToolSource } from "./tools/tool-set.ts";

/** Requests per attempt to an unreachable provider. */
const MAX_PROVIDER_TRIES = 3;
/** If a provider asks for a longer pause, the run fails, and the error says when to try again. */
const MAX_WAIT_MS = 10_000;
const RETRIES = { firstMs: 500, maxMs: MAX_WAIT_MS };

interface AiSdkOptions {
  readonly env: Environment;
  readonly random: () => number;
  readonly tools: ToolSource;
  /** The requests to providers that the node may have under way. */
  readonly requests: Semaphore;
  /** Called with the errors of tools that are not shown to the user. */
  readonly onFault: (fault: unknown, agentId: AgentId, turn: Turn, toolName?: string) => void;
}

/**
 * An agent that is one language model, through the AI SDK.
 *
 * It reports no `provider-session`: each request contains the conversation. A response id would not help: an
 * interrupted response cannot be continued, and a stored one expires, belongs to one key, and lacks the messages of
 * other agents. Requests ask OpenAI to store nothing.
 */
export function createAiSdkAgent(
  entry: AgentEntry,
  adapter: AiSdkAdapter,
  { env, random, tools: source, requests, onFault }: AiSdkOptions,
): Agent {
  let model: ReturnType<typeof loadModel> | undefined;
  let summaryModel: ReturnType<typeof loadModel> | undefined;
  const { summary } = adapter;
  const names = { host: hostOf(adapter), key: apiKeyOf(adapter, env) };
  const mustHaveKey = () => {
    if (findKeyProblem(adapter, env) === undefined) return;
    throw new AppError("provider_refused", "This agent has no key for its model's provider.");
  };
  return {
    id: entry.id,
    yields: adapter.yields,
    restartable: adapter.restartable,
    async *run(turn: Turn, control: RunControl): AsyncGenerator<Part> {
      mustHaveKey();
      model ??= loadModel(adapter, env);
      const reply: ModelReply = {
        entry: inMode(entry, turn.mode),
        adapter,
        model: await model,
        messages: await toModelMessages(turn, (image) => control.loadImage(image), summary?.keep),
        turn: { ...turn, tree: treeOf(entry, turn) },
        source,
        requests,
        onFault: (fault, toolName) => onFault(fault, entry.id, turn, toolName),
      };
      yield* streamPersistently(reply, control, { random, names });
    },
    ...(summary && {
      async *summarize(request: SummaryRequest, control: RunControl): AsyncGenerator<Part> {
        mustHaveKey();
        summaryModel ??= loadModel({ ...adapter, model: summary.model ?? adapter.model }, env);
        const { runId, attempt, sessionId, messages } = request;
        const reply: ModelReply = {
          entry: { ...entry, instructions: SUMMARY_INSTRUCTIONS, tools: [] },
          adapter,
          model: await summaryModel,
          messages: [{ role: "user", content: toSummaryPrompt(request) }],
          turn: { runId, attempt, sessionId, input: messages.at(-1)!, history: [], approvedTools: [] },
          source,
          requests,
          onFault: () => {},
        };
        yield* streamPersistently(reply, control, { random, names });
      },
    }),
  };
}

/** A reply, asked for again while the provider is unreachable and nothing was said. */
async function* streamPersistently(
  reply: ModelReply,
  control: RunControl,
  { random, names }: { random: () => number; names: ProviderNames },
): AsyncGenerator<Part> {
  for (let tries = 1; !control.signal.aborted; tries += 1) {
    let hasSpoken = false;
    try {
      for await (const part of streamReply(reply, control)) {
        hasSpoken ||= part.type === "text" || part.type === "reasoning" || part.type === "tool-call";
        yield part;
      }
      return;
    } catch (error) {
      if (control.signal.aborted) return;
      const failure = toProviderFailure(error, { ...names, said: textsOf(reply) });
      const next = nextTryAfter(failure, tries, random);
      if (hasSpoken || !next) throw failure;
      await control.sleep(next.delayMs, next.after);
    }
  }
}

/** The texts of a request. */
function textsOf({ messages, entry }: ModelReply): string[] {
  const texts = messages.flatMap(({ content }): string[] =>
    typeof content === "string" ? [content] : content.flatMap((part) => ("text" in part ? [part.text] : [])),
  );
  return entry.instructions === undefined ? texts : [entry.instructions, ...texts];
}

/** The pause before another try, in ms, and the failure's code; undefined: do not try again. */
function nextTryAfter(
  failure: unknown,
  tries: number,
  random: () => number,
): { delayMs: number; after: ErrorCode } | undefined {
  if (!(failure instanceof AppError) || failure.code !== "provider_unreachable" || tries >= MAX_PROVIDER_TRIES)
    return undefined;
  // The user has already waited for the whole timeout.
  if (failure.cause instanceof Error && failure.cause.name === TokenTimeout.name) return undefined;
  const requestedMs = failure.retryAfterMs ?? 0;
  if (requestedMs > MAX_WAIT_MS) return undefined;
  return { delayMs: Math.max(backoffMs(tries, RETRIES, random), requestedMs), after: failure.code };
}
