import type { Decision } from "../protocol/decision.ts";
import { ERRORS, type ErrorCode } from "../protocol/errors.ts";
import type { AgentInfo } from "../protocol/session.ts";

/**
 * The server's codes, and two of the way there: `unreachable`, nothing came back, so what was asked may have happened;
 * `unexpected_answer`, something came back that this server does not say.
 */
export type ClientErrorCode = ErrorCode | "unreachable" | "unexpected_answer";

/** What a failure says beside its code and its text. */
export interface ClientErrorFacts {
  /** The key the write was sent with; with it the write can be repeated without a second effect. */
  commandId?: string;
  /** Why the floor was refused. */
  decision?: Decision;
  /** What is wrong with the request, place by place. */
  issues?: { path: string; message: string }[];
  /** The commands that the session's state does allow. */
  allowed?: string[];
  availableAgents?: AgentInfo[];
  /** By which the server's log knows the request. */
  traceId?: string;
  [more: string]: unknown;
}

export interface ClientErrorOptions {
  /** The HTTP status; 0 when there was no answer. */
  status: number;
  retryable: boolean;
  facts?: ClientErrorFacts;
  /** The server asks to wait so long, in ms. */
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/** A request that failed. What the caller aborted is no failure: that throws the signal's own reason. */
export class ClientError extends Error {
  readonly code: ClientErrorCode;
  readonly status: number;
  /** Whether asking again can succeed; only `unreachable`, `busy`, `unavailable` and `too_many_requests` want the same key. */
  readonly retryable: boolean;
  readonly facts: ClientErrorFacts;
  readonly retryAfterMs: number | undefined;

  constructor(code: ClientErrorCode, message: string, options: ClientErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "ClientError";
    this.code = code;
    this.status = options.status;
    this.retryable = options.retryable;
    this.facts = options.facts ?? {};
    this.retryAfterMs = options.retryAfterMs;
  }

  /** Whether the outcome is unknown or put off, so that the same request, with the same key, is to be sent again. */
  get wantsRepeat(): boolean {
    if (this.code === "unreachable") return true;
    return this.code !== "unexpected_answer" && ERRORS[this.code]?.retry === "yes";
  }
}

/** No answer: the connection failed, or took too long. */
export function unreachable(url: string, cause: unknown): ClientError {
  const { origin } = new URL(url);
  return new ClientError("unreachable", `${origin} does not answer.`, { status: 0, retryable: true, cause });
}

/** The failure an answer tells of. A proxy's 502, 503 or 504 counts as `unavailable`: behind it anything may have happened. */
export async function failureOf(response: Response): Promise<ClientError> {
  const { status } = response;
  const retryAfterMs = readRetryAfter(response.headers.get("retry-after"));
  const problem = parseProblem(await response.text());
  if (problem) {
    const { success: _, errorCode, error, retryable, ...facts } = problem;
    return new ClientError(errorCode, error, { status, retryable, facts, retryAfterMs });
  }
  if (status === 502 || status === 503 || status === 504) {
    return new ClientError("unavailable", ERRORS.unavailable.text, { status, retryable: true, retryAfterMs });
  }
  return unexpectedAnswer(status);
}

export function unexpectedAnswer(status: number): ClientError {
  const message = `An answer came back that is not this server's (status ${status}).`;
  return new ClientError("unexpected_answer", message, { status, retryable: false });
}

interface ProblemBody extends ClientErrorFacts {
  success: false;
  errorCode: ErrorCode;
  error: string;
  retryable: boolean;
}

function parseProblem(text: string): ProblemBody | undefined {
  try {
    const body = JSON.parse(text) as Partial<ProblemBody> | null;
    const isProblem = typeof body?.errorCode === "string" && typeof body.error === "string";
    return isProblem ? ({ ...body, retryable: body.retryable === true } as ProblemBody) : undefined;
  } catch {
    return undefined;
  }
}

/** Seconds only: dates would be compared with a clock that may be wrong. */
function readRetryAfter(header: string | null): number | undefined {
  return header !== null && /^\d{1,6}$/.test(header) ? Number(header) * 1_000 : undefined;
}
