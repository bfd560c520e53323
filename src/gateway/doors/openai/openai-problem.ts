import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { AppError, type ErrorCode } from "../../../protocol/errors.ts";
import { problemHeaders, toAppError } from "../../http/problem.ts";
import type { RunFailure } from "../run-summary.ts";

/** The body of a failure in OpenAI's format. */
export const OpenAiProblem = z
  .object({
    error: z.looseObject({
      message: z.string(),
      type: z.string(),
      code: z.string(),
      param: z.string().nullable(),
    }),
  })
  .meta({ id: "OpenAiProblem" });
export type OpenAiProblem = z.infer<typeof OpenAiProblem>;

/** Failures of a run that have their own status in OpenAI's API. Other failures of a run are answered with 502. */
const STATUS_OF_RUN: { readonly [code in ErrorCode]?: number } = { provider_rate_limited: 429 };

const TYPES: { readonly [status: number]: string } = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  409: "conflict_error",
  429: "rate_limit_error",
};

/** The HTTP status of a failure in OpenAI's API. */
export const statusOf = (error: AppError): number => STATUS_OF_RUN[error.code] ?? error.status;

/** A failure as OpenAI's API describes it. */
export function openAiProblem(error: AppError, traceId?: string): OpenAiProblem {
  const { code, message, facts } = error;
  const {
    issues,
    param,
    code: special,
    ...rest
  } = facts as {
    issues?: { path: string; message: string }[];
    param?: string;
    code?: string;
  };
  const [first] = issues ?? [];
  const status = statusOf(error);
  return {
    error: {
      message: first ? `${first.path}: ${first.message}` : message,
      type: TYPES[status] ?? (status >= 500 ? "server_error" : "invalid_request_error"),
      code: special ?? code,
      param: param ?? first?.path.replace(/^body\./, "") ?? null,
      ...rest,
      ...(traceId !== undefined && { traceId }),
    },
  };
}

/** Convert the failure of a run to the error of its request. */
export function errorOf({ code, message, retryAfterMs }: RunFailure): AppError {
  return new AppError(code, message, retryAfterMs === undefined ? {} : { facts: { retryAfterMs } });
}

/** The error for a parameter that the catalogue's agents do not support. */
export function unsupported(param: string, message: string): AppError {
  return new AppError("bad_request", message, { facts: { param, code: "unsupported_parameter" } });
}

/** Failures after which the client may safely repeat the request. */
const REPEATABLE: ReadonlySet<ErrorCode> = new Set(["too_many_requests"]);

/**
 * Answer a failure as OpenAI does. OpenAI's clients automatically repeat requests after 408, 409, 429 and 5xx, without
 * a key. A header forbids that, unless the request was refused before it had an effect.
 */
export function sendOpenAiProblem(thrown: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const error = toAppError(thrown);
  // Thrown again, the error is logged and answered like any other.
  if (error.code === "internal") throw thrown;
  void reply
    .code(statusOf(error))
    .headers(problemHeaders(error))
    .header("x-should-retry", String(REPEATABLE.has(error.code)))
    .type("application/json; charset=utf-8")
    .send(openAiProblem(error, request.id));
}
