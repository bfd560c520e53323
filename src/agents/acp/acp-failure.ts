import { AppError, type ErrorCode } from "../../protocol/errors.ts";
import type { Usage } from "../../protocol/message.ts";
import { textWithin } from "../../shared/text.ts";

type ProviderCode = Extract<ErrorCode, `provider_${string}`>;

/** The longest description of a failure that is shown to the user, in UTF-16 units. */
const MAX_REASON_UNITS = 500;
/** The JSON-RPC code of an agent that requires a login. */
const LOGIN_NEEDED = -32_000;

const CATEGORIES: Readonly<Record<string, ProviderCode>> = {
  limit: "provider_rate_limited",
  access: "provider_refused",
  request: "provider_refused",
};

interface TurnEnd {
  readonly stopReason?: unknown;
  readonly _meta?: unknown;
}

/**
 * Why a turn failed that the agent reports as finished; undefined for success. Agents report failures of their model as
 * the end of a turn, with the error as text or without any text.
 */
export function acpFailureOf(
  response: TurnEnd,
  seen: { hasSpoken: boolean; wasRejected: boolean; failure: unknown },
  redact: (text: string) => string,
): AppError | undefined {
  const reported = pick(response._meta, "jetbrains", "air", "sessionFailure");
  if (reported !== undefined) {
    return fail(CATEGORIES[String(pick(reported, "category"))], pick(reported, "title"), redact);
  }
  if (seen.failure !== undefined) return toFailure(seen.failure, redact);
  switch (response.stopReason) {
    case "refusal":
      return fail("provider_refused", "it refused to answer", redact);
    case "cancelled":
      // Codex ends its turn that way when the user rejects a tool.
      return seen.wasRejected ? undefined : fail("provider_unreachable", "it cancelled its turn", redact);
    default:
      return seen.hasSpoken || seen.wasRejected
        ? undefined
        : fail("provider_unreachable", "it produced no output", redact);
  }
}

/** Convert a failed request, or an error that the agent described, to an AppError. */
export function toFailure(error: unknown, redact: (text: string) => string): AppError {
  if (error instanceof AppError) return error;
  const code = pick(error, "code");
  const message = pick(error, "message");
  const kind = String(pick(error, "data", "errorKind") ?? pick(error, "codexErrorInfo") ?? "");
  const isLimited = code === 429 || /rate.?limit|usage.?limit|quota/i.test(`${kind} ${String(message)}`);
  if (isLimited || /\b429\b/.test(String(message))) return fail("provider_rate_limited", message, redact);
  if (code === LOGIN_NEEDED || code === 401 || code === 403 || /unauthorized|authentication/i.test(kind)) {
    return fail("provider_refused", message ?? "it requires a login", redact);
  }
  return fail("provider_unreachable", message, redact);
}

function fail(
  code: ProviderCode = "provider_unreachable",
  reason: unknown,
  redact: (text: string) => string,
): AppError {
  const said = typeof reason === "string" ? textWithin(redact(reason).trim(), MAX_REASON_UNITS) : "";
  return new AppError(code, said === "" ? "This agent failed." : `This agent failed: ${said}`);
}

function pick(value: unknown, ...path: string[]): unknown {
  let found = value;
  for (const key of path) found = typeof found === "object" && found !== null ? (found as never)[key] : undefined;
  return found;
}

/** Parse an agent's token counts, which have different names per agent; undefined if there are none. */
export function toUsage(...counts: unknown[]): Usage | undefined {
  for (const counted of counts) {
    const read = (...names: string[]) => {
      const value = names.map((name) => pick(counted, name)).find((one) => typeof one === "number");
      return Math.min(Math.max(Math.round(Number(value ?? 0)), 0), Number.MAX_SAFE_INTEGER);
    };
    const cacheRead = read("cachedReadTokens", "cached_read_tokens");
    const cacheWrite = read("cachedWriteTokens", "cached_write_tokens");
    const prompt = read("inputTokens", "input_tokens", "promptTokens", "prompt_tokens") + cacheRead + cacheWrite;
    const completion = read("outputTokens", "output_tokens", "completionTokens", "completion_tokens");
    if (prompt + completion === 0) continue;
    return {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      ...(cacheWrite > 0 && { cache_creation_input_tokens: cacheWrite }),
      ...(cacheRead > 0 && { cache_read_input_tokens: cacheRead }),
    };
  }
  return undefined;
}

/** Whether the agent answered a request with an error. Other errors come from the connection. */
export function isAnswer(error: unknown): boolean {
  return typeof (error as { code?: unknown } | null)?.code === "number";
}

/** Gemini reports tokens in the answer's `_meta.quota.token_count`, Qwen in `_meta.usage`. */
export function tokensInMeta({ _meta }: TurnEnd): unknown {
  return pick(_meta, "quota", "token_count") ?? pick(_meta, "usage");
}
