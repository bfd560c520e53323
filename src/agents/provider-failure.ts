import { AppError } from "../protocol/errors.ts";
import { OversizedAnswer } from "./bounded-fetch.ts";
import { TokenTimeout } from "./token-timeout.ts";

/** The longest accepted `Retry-After`, in ms; longer ones are cut to it. */
const MAX_RETRY_AFTER_MS = 86_400_000;
/** A provider's error code. Only letters and underscores, so that a key or a user's text cannot match. */
const ERROR_WORD = /^[a-z_]{1,64}$/;
/** Errors of the AI SDK about the request, not about the response. */
const REQUEST_ERRORS: ReadonlySet<string> = new Set([
  "AI_InvalidArgumentError",
  "AI_InvalidPromptError",
  "AI_LoadAPIKeyError",
  "AI_LoadSettingError",
  "AI_NoSuchModelError",
  "AI_UnsupportedFunctionalityError",
]);

/** The fields of the AI SDK's errors that this file reads. */
interface ProviderError {
  readonly name?: unknown;
  readonly statusCode?: unknown;
  readonly type?: unknown;
  readonly code?: unknown;
  readonly data?: unknown;
  readonly responseHeaders?: Readonly<Record<string, string>> | undefined;
}

/**
 * Convert an error of the AI SDK, thrown or from its stream, to an `AppError` for the user. Other JavaScript errors are
 * faults of Interlock and are returned as they are. The SDK's errors contain the whole request, with the prompt and part
 * of the key: none of that is copied, not even into `cause`.
 */
export function toProviderFailure(error: unknown): unknown {
  if (error instanceof TokenTimeout) {
    return new AppError("provider_unreachable", "The model's provider stopped responding.", { cause: error });
  }
  const oversized = findOversized(error);
  if (oversized) {
    return new AppError("too_large", "The answer of the model's provider is too large.", { cause: oversized });
  }
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
 * Read `Retry-After`, in seconds or as a date, to ms from now; undefined if absent or malformed. A date counts from the
 * response's `Date`, because this machine's clock may be wrong.
 */
export function readRetryAfter(headers: Readonly<Record<string, string>> | undefined): number | undefined {
  const text = headers?.["retry-after"]?.trim();
  if (!text) return undefined;
  const ms = /^\d{1,9}(\.\d{1,9})?$/.test(text)
    ? Number(text) * 1_000
    : Date.parse(text) - Date.parse(headers?.["date"] ?? "");
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(Math.ceil(ms), 0), MAX_RETRY_AFTER_MS);
}

/** The SDK wraps errors from reading an answer. */
function findOversized(error: unknown): OversizedAnswer | undefined {
  let each = error;
  for (let depth = 0; depth < 8 && each instanceof Error; depth += 1) {
    if (each instanceof OversizedAnswer) return each;
    each = each.cause;
  }
  return undefined;
}

/** The SDK's errors are named `AI_…`. It wraps those of `fetch`, which has two texts for a connection that failed. */
function isFaultOfOurs(error: unknown): boolean {
  if (!(error instanceof Error) || error.name.startsWith("AI_")) return false;
  return !(error instanceof TypeError && (error.message === "terminated" || error.message === "fetch failed"));
}

/** Excludes 408, which means a slow connection and not a wrong request, and 429. */
function isClientError(status: number | undefined): boolean {
  return status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** The HTTP status. An error inside a stream that began with 200 has a code instead, which maps to a status here. */
function httpStatus({ statusCode }: ProviderError, word: string | undefined): number | undefined {
  if (typeof statusCode === "number") return statusCode;
  if (word === undefined) return undefined;
  if (/rate_limit|insufficient_quota|resource_exhausted/.test(word)) return 429;
  return /invalid|authenticat|permission|not_found|context_length/.test(word) ? 400 : undefined;
}

function errorWord({ code, type, data }: ProviderError): string | undefined {
  const inner = asRecord(asRecord(data)["error"]);
  // Google sends the error code in capitals as `status`, and a number as `code`.
  return [code, type, inner["code"], inner["type"], inner["status"]]
    .map((word) => (typeof word === "string" ? word.toLowerCase() : ""))
    .find((word) => ERROR_WORD.test(word));
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
