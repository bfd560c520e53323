import { AppError } from "../protocol/errors.ts";

/** Waits that a provider asks for are believed up to a day. */
const MAX_RETRY_AFTER_MS = 86_400_000;
/** A provider's own word for an error. Letters only: a key or a sentence of somebody's message never looks like this. */
const ERROR_WORD = /^[a-z_]{1,64}$/;
/** Errors of the AI SDK that are about what was asked, not about what came back. */
const REQUEST_ERRORS: ReadonlySet<string> = new Set([
  "AI_InvalidArgumentError",
  "AI_InvalidPromptError",
  "AI_LoadAPIKeyError",
  "AI_LoadSettingError",
  "AI_NoSuchModelError",
  "AI_UnsupportedFunctionalityError",
]);

/** What the errors of the AI SDK have in common, as far as they are read here. */
interface ProviderError {
  readonly name?: unknown;
  readonly statusCode?: unknown;
  readonly type?: unknown;
  readonly code?: unknown;
  readonly data?: unknown;
  readonly responseHeaders?: Readonly<Record<string, string>> | undefined;
}

/**
 * The failure to tell the user, from whatever the AI SDK threw or put into its stream. A JavaScript error that is not
 * the SDK's is a fault of ours and comes back as it is. The SDK's errors carry the whole request, the key's tail in the
 * provider's text and the prompt among it: none of that goes on, not even as `cause`.
 */
export function toProviderFailure(error: unknown): unknown {
  if (error instanceof AppError || isFaultOfOurs(error)) return error;
  const details = asRecord(error) as ProviderError;
  const word = errorWord(details);
  const status = httpStatus(details, word);
  const known = [typeof details.name === "string" ? details.name : "error", status, word].filter(Boolean).join(" ");
  const retryAfterMs = readRetryAfter(details.responseHeaders);
  const options = {
    cause: new Error(known),
    ...(retryAfterMs !== undefined && { facts: { retryAfterMs } }),
  };
  if (status === 429) return new AppError("provider_rate_limited", undefined, options);
  const isRefusal = isClientError(status) || REQUEST_ERRORS.has(String(details.name));
  if (!isRefusal) return new AppError("provider_unreachable", undefined, options);
  const why = [isClientError(status) && status, word].filter(Boolean).join(" ");
  return new AppError(
    "provider_refused",
    why ? `The model's provider refused the request (${why}).` : undefined,
    options,
  );
}

/**
 * `Retry-After` in ms, as seconds or as a date. A date is read against the answer's own `Date`: the clock of this
 * machine may never have been set.
 */
export function readRetryAfter(headers: Readonly<Record<string, string>> | undefined): number | undefined {
  const text = headers?.["retry-after"]?.trim();
  if (!text) return undefined;
  const ms = /^\d{1,9}(\.\d{1,9})?$/.test(text)
    ? Number(text) * 1_000
    : Date.parse(text) - Date.parse(headers?.["date"] ?? "");
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(Math.ceil(ms), 0), MAX_RETRY_AFTER_MS);
}

/** The SDK's errors are named `AI_…`. It wraps those of `fetch`, which has two texts for a connection that failed. */
function isFaultOfOurs(error: unknown): boolean {
  if (!(error instanceof Error) || error.name.startsWith("AI_")) return false;
  return !(error instanceof TypeError && (error.message === "terminated" || error.message === "fetch failed"));
}

/** 408 says that the request came too slowly, not that it was wrong. */
function isClientError(status: number | undefined): boolean {
  return status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** Errors in a stream that began with 200 have a word where others have a status. */
function httpStatus({ statusCode }: ProviderError, word: string | undefined): number | undefined {
  if (typeof statusCode === "number") return statusCode;
  if (word === undefined) return undefined;
  if (/rate_limit|insufficient_quota/.test(word)) return 429;
  return /invalid|authentication|permission|not_found|context_length/.test(word) ? 400 : undefined;
}

function errorWord({ code, type, data }: ProviderError): string | undefined {
  const inner = asRecord(asRecord(data)["error"]);
  return [code, type, inner["code"], inner["type"]].find(
    (word): word is string => typeof word === "string" && ERROR_WORD.test(word),
  );
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
