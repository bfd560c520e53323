import { AppError } from "../protocol/errors.ts";
import { isObject, parseJson } from "../shared/json.ts";
import { cutText, textWithin, toOneLine } from "../shared/text.ts";
import { OversizedAnswer } from "./bounded-fetch.ts";
import { BrokenAnswer } from "./provider-answer.ts";
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
  readonly message?: unknown;
  readonly responseBody?: unknown;
  readonly responseHeaders?: Readonly<Record<string, string>> | undefined;
}

/** What a failure may name besides what the error has. */
export interface ProviderNames {
  /** The provider's host. */
  readonly host?: string | undefined;
  /** Its key, which is never shown. */
  readonly key?: string | undefined;
  /** The texts of the request, which a provider may quote: they are not shown. */
  readonly said?: readonly string[] | undefined;
}

/**
 * Convert an error of the AI SDK, thrown or from its stream, to an `AppError`. Its message is for the user, its `cause`
 * for the operator: host, status or reason of the connection, and the provider's own sentence, masked and cut. Other
 * JavaScript errors are faults of Interlock and are returned as they are. The SDK's errors contain the whole request,
 * with the prompt and part of the key: none of that is copied.
 */
export function toProviderFailure(error: unknown, names: ProviderNames = {}): unknown {
  const causeOf = (...facts: unknown[]) => new Error(wordsOf(hostOf(error) ?? names.host, ...facts));
  if (error instanceof TokenTimeout) {
    const cause = Object.assign(causeOf(error.message), { name: error.name });
    return new AppError("provider_unreachable", "The model's provider stopped responding.", { cause });
  }
  const oversized = findCause(error, OversizedAnswer);
  if (oversized) {
    const cause = causeOf(oversized.message);
    return new AppError("too_large", "The answer of the model's provider is too large.", { cause });
  }
  const broken = findCause(error, BrokenAnswer);
  if (broken) {
    const cause = causeOf("answered", broken.message, broken.cause instanceof Error ? broken.cause.name : undefined);
    return new AppError("provider_unreachable", "The model's provider sent an answer that cannot be read.", { cause });
  }
  if (error instanceof AppError || isFaultOfOurs(error)) return error;
  return reportedFailure(error, names, causeOf);
}

/** The failure that a provider reported, or that of its connection. */
function reportedFailure(error: unknown, names: ProviderNames, causeOf: (...facts: unknown[]) => Error): AppError {
  const details = asRecord(error) as ProviderError;
  const word = errorWord(details);
  const status = httpStatus(details, word);
  const sentence = sentenceOf(details, names);
  const name = typeof details.name === "string" ? details.name : "error";
  const retryAfterMs = readRetryAfter(details.responseHeaders);
  const options = {
    cause: causeOf(name, status, word, connectionCode(error), sentence && `“${sentence}”`),
    ...(retryAfterMs !== undefined && { facts: { retryAfterMs } }),
  };
  if (status === 429) return new AppError("provider_rate_limited", undefined, options);
  const isRefusal = isClientError(status) || REQUEST_ERRORS.has(String(details.name));
  // Sentences about keys, accounts and payment are for operators.
  const shown = isAboutAccount(status) ? undefined : sentence;
  if (isRefusal) return new AppError("provider_refused", refusalText(status, word, shown), options);
  const hasReported = shown !== undefined && !(error instanceof Error);
  const message = hasReported ? `The model's provider reported an error: ${shown}` : undefined;
  return new AppError("provider_unreachable", message, options);
}

/** @returns undefined if the provider gave no reason */
function refusalText(status: number | undefined, word: string | undefined, shown: string | undefined) {
  const why = wordsOf(isClientError(status) && status, word);
  if (!why && !shown) return undefined;
  return `The model's provider refused the request${why && ` (${why})`}${shown ? `: ${shown}` : "."}`;
}

const wordsOf = (...facts: unknown[]): string => facts.filter(Boolean).join(" ");

const isAboutAccount = (status: number | undefined): boolean => status === 401 || status === 402 || status === 403;

/** The longest sentence of a provider that is kept, in UTF-16 units. */
const MAX_SENTENCE_UNITS = 300;
/**
 * What may be a key, an account or a file of the provider: long words with digits, and the usual beginnings of keys.
 */
const SECRETIVE =
  /\b(?:sk|pk|rk|org|proj|gsk|xai)[-_][\w*.-]{4,}|\bbearer\s+\S{4,}|AIza[\w-]{8,}|\b(?=[\w*-]*\d)[\w*-]{20,}/gi;
const ADDRESS = /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi;

/** The provider's own sentence; undefined if it gave none. */
function sentenceOf(error: ProviderError, { key = "", said = [] }: ProviderNames): string | undefined {
  const { message, responseBody, data = bodyOf(responseBody) } = error;
  const inner = asRecord(data)["error"];
  // The message of an exception is the SDK's own; an object is the provider's, from its stream.
  const own = error instanceof Error ? undefined : message;
  const text = asRecord(inner)["message"] ?? inner ?? asRecord(data)["message"] ?? own;
  if (typeof text !== "string") return undefined;
  const known = key === "" ? text : text.replaceAll(key, "…");
  const masked = cutText(known, 4 * MAX_SENTENCE_UNITS)
    .replace(ADDRESS, "…")
    .replace(SECRETIVE, "…");
  return textWithin(withoutQuotes(masked, said), MAX_SENTENCE_UNITS) || undefined;
}

const bodyOf = (text: unknown): unknown =>
  typeof text === "string" && text.length <= 65_536 ? parseJson(text) : undefined;

/**
 * The sentence without what it quotes: three words in a row that the request has too, or the whole of a shorter text.
 */
function withoutQuotes(sentence: string, said: readonly string[]): string {
  const texts = said.map((text) => ` ${toOneLine(text).toLowerCase()} `);
  const words = sentence.trim().split(/\s+/);
  const quoted = new Set<number>();
  for (let first = 0; first < words.length; first += 1) {
    for (const length of [1, 2, 3]) {
      const row = words.slice(first, first + length).map((word) => word.replace(/^["'`“‘(]+|["'`”’).,:;!?]+$/g, ""));
      const wanted = row.join(" ").toLowerCase();
      const isQuoted =
        wanted !== "" && texts.some((text) => (length === 3 ? text.includes(wanted) : text.trim() === wanted));
      if (isQuoted) for (let at = first; at < first + row.length; at += 1) quoted.add(at);
    }
  }
  return words.map((word, at) => (quoted.has(at) ? "…" : word)).join(" ");
}

/** The reason why a connection failed, such as `ECONNREFUSED`; `fetch` keeps it below its own error. */
function connectionCode(error: unknown): string | undefined {
  let each = error;
  for (let depth = 0; depth < 8 && each instanceof Error; depth += 1) {
    const { code } = each as { code?: unknown };
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]{2,63}$/.test(code)) return code;
    each = each instanceof AggregateError ? each.errors[0] : each.cause;
  }
  return undefined;
}

function hostOf(error: unknown): string | undefined {
  const { url } = asRecord(error);
  return typeof url === "string" && URL.canParse(url) ? new URL(url).host : undefined;
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
function findCause<E extends Error>(error: unknown, kind: new (...args: never[]) => E): E | undefined {
  let each = error;
  for (let depth = 0; depth < 8 && each instanceof Error; depth += 1) {
    if (each instanceof kind) return each;
    each = each.cause;
  }
  return undefined;
}

/** The SDK's errors are named `AI_…`. It wraps those of `fetch`, which has two texts for a connection that failed. */
export function isFaultOfOurs(error: unknown): boolean {
  if (!(error instanceof Error) || error.name.startsWith("AI_")) return false;
  return !(error instanceof TypeError && (error.message === "terminated" || error.message === "fetch failed"));
}

/** Excludes 408, which means a slow connection and not a wrong request, and 429. */
function isClientError(status: number | undefined): boolean {
  return status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** The HTTP status. An error inside a stream that began with 200 has a code instead, which maps to a status here. */
function httpStatus({ statusCode, code }: ProviderError, word: string | undefined): number | undefined {
  if (typeof statusCode === "number") return statusCode;
  const number = typeof code === "string" && /^\d{3}$/.test(code) ? Number(code) : code;
  if (typeof number === "number" && number >= 400 && number < 600) return number;
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
  return isObject(value) ? value : {};
}
