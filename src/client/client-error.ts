import type { SpentBudget } from "../protocol/budget.ts";
import type { Decision } from "../protocol/decision.ts";
import type { ERRORS, ErrorCode } from "../protocol/errors.ts";
import type { Routed } from "../protocol/routed.ts";
import type { AgentInfo } from "../protocol/session.ts";
import type { ZoneAnswer } from "../protocol/zone-answer.ts";
import { parseJson } from "../shared/json.ts";
import type { CatalogueFault } from "./answers.ts";

/**
 * The server's error codes, and two for the transport. `unreachable`: no answer arrived, so the request may have taken
 * effect. `unexpected_answer`: the answer is not one of this server's.
 */
export type ClientErrorCode = ErrorCode | "unreachable" | "unexpected_answer";

// Of the table of errors only the types are used: its texts would be a tenth of the script.
type RepeatedCode = { [Code in ErrorCode]: (typeof ERRORS)[Code] extends { retry: "yes" } ? Code : never }[ErrorCode];

const REPEATED: Record<RepeatedCode | "unreachable", true> = {
  unreachable: true,
  too_many_requests: true,
  busy: true,
  unavailable: true,
  provider_rate_limited: true,
  provider_unreachable: true,
  run_lost: true,
};

const UNAVAILABLE: (typeof ERRORS)["unavailable"]["text"] =
  "The outcome is not known yet. Repeat the request with the same key.";

/** The details of a failure, besides its code and text. */
export interface ClientErrorFacts {
  /** The key of the write. With it the write can be repeated without a second effect. */
  commandId?: string;
  /** Why the floor was refused. */
  decision?: Decision;
  /** Which agent would have heard the sentence. */
  routed?: Routed;
  /** What is wrong with the request, by path. */
  issues?: { path: string; message: string }[];
  /** What is wrong with a catalogue, by line and column. */
  faults?: CatalogueFault[];
  /** The commands that the session's state allows. */
  allowed?: string[];
  availableAgents?: AgentInfo[];
  /** With `budget_exhausted`: the budget that is used up, and when it is free again. */
  budget?: SpentBudget;
  /** Of a request for all zones that each refused: what each decided. */
  zones?: ZoneAnswer[];
  /** With `session_archived`: the session in which it goes on. */
  replacedBy?: string;
  /** The id of the request in the server's log. */
  traceId?: string;
  [more: string]: unknown;
}

/** What the request would get: the floor's decision, or another error. */
export interface WhatIfAnswer {
  decision?: Decision;
  refused?: ClientErrorFacts & { errorCode: string; error: string; retryable: boolean };
}

export interface ClientErrorOptions {
  /** The HTTP status; 0 if no answer arrived. */
  status: number;
  retryable: boolean;
  facts?: ClientErrorFacts;
  /** The delay that the server requests, in ms. */
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/** A failed request. An aborted request throws the reason of its signal instead. */
export class ClientError extends Error {
  readonly code: ClientErrorCode;
  readonly status: number;
  /**
   * Whether a repeat can succeed. `unreachable`, `busy`, `unavailable` and `too_many_requests` must be repeated with
   * the same key.
   */
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

  /** Whether the outcome is unknown or deferred, so that the request should be sent again with the same key. */
  get wantsRepeat(): boolean {
    return Object.hasOwn(REPEATED, this.code);
  }
}

/** The error for a connection that failed or timed out. */
export function unreachable(url: string, cause: unknown): ClientError {
  const { origin } = new URL(url);
  return new ClientError("unreachable", `${origin} does not answer.`, { status: 0, retryable: true, cause });
}

/**
 * The error for a failed answer. A proxy's 502, 503 or 504 counts as `unavailable`, because the request may have taken
 * effect.
 */
export async function failureOf(response: Response): Promise<ClientError> {
  const { status } = response;
  const retryAfterMs = readRetryAfter(response.headers.get("retry-after"));
  const problem = parseProblem(await response.text());
  if (problem) {
    const { success: _, errorCode, error, retryable, ...facts } = problem;
    return new ClientError(errorCode, error, { status, retryable, facts, retryAfterMs });
  }
  if (status === 502 || status === 503 || status === 504) {
    return new ClientError("unavailable", UNAVAILABLE, { status, retryable: true, retryAfterMs });
  }
  return unexpectedAnswer(status);
}

/** The error for an answer that is not one of this server's. */
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
  const body = parseJson(text) as Partial<ProblemBody> | null | undefined;
  const isProblem = typeof body?.errorCode === "string" && typeof body.error === "string";
  return isProblem ? ({ ...body, retryable: body.retryable === true } as ProblemBody) : undefined;
}

/** Accepts seconds only: a date would be compared with a clock that may be wrong. */
function readRetryAfter(header: string | null): number | undefined {
  return header !== null && /^\d{1,6}$/.test(header) ? Number(header) * 1_000 : undefined;
}
