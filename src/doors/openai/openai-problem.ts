import { z } from "zod";
import { type DescribeProblem, problemHeaders } from "../../gateway/http/problem.ts";
import { AppError, type ErrorCode } from "../../protocol/errors.ts";
import type { RunFault } from "../run-summary.ts";

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

/** The failure of a run that has begun: it may have acted. */
class FailedRun extends AppError {}

const TYPES: { readonly [status: number]: string } = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  409: "conflict_error",
  429: "rate_limit_error",
};

/** A budget that is used up is not a rate that a client may wait for. */
const TYPE_OF_CODE: { readonly [code in ErrorCode]?: string } = { budget_exhausted: "insufficient_quota" };

/** A path in a body as OpenAI writes it: `messages[0].content`. */
const asParam = (path: string): string => path.replace(/^body\./, "").replace(/\.(\d+)(?=\.|$)/g, "[$1]");

/**
 * The HTTP status of a failure. Common clients repeat requests by themselves after 408, 409, 429 and 5xx, and not all
 * of them obey `x-should-retry`. So a turn that failed has none of these, because another one may act again, and
 * neither has a refusal of the floor or of a budget, which would be asked again.
 */
function statusOf(error: AppError): number {
  if (error.code === "rejected" || error.code === "budget_exhausted") return 403;
  return error instanceof FailedRun || error.status === 409 ? 400 : error.status;
}

/** What kind of failure it is, whatever its status. */
const STATUS_OF_RUN: { readonly [code in ErrorCode]?: number } = { provider_rate_limited: 429 };
const kindOf = (error: AppError): number => STATUS_OF_RUN[error.code] ?? error.status;

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
  const path = first && asParam(first.path);
  const status = kindOf(error);
  return {
    error: {
      message: first ? `${path}: ${first.message}` : message,
      type: TYPE_OF_CODE[code] ?? TYPES[status] ?? (status >= 500 ? "server_error" : "invalid_request_error"),
      code: special ?? code,
      param: param === undefined ? (path ?? null) : asParam(param),
      ...rest,
      ...(traceId !== undefined && { traceId }),
    },
  };
}

/** Convert the failure of a run to the error of its request. */
export function errorOf({ code, message, retryAfterMs }: RunFault): AppError {
  return new FailedRun(code, message, retryAfterMs === undefined ? {} : { facts: { retryAfterMs } });
}

/** The error for a parameter that the catalogue's agents do not support. */
export function unsupported(param: string, message: string): AppError {
  return new AppError("bad_request", message, { facts: { param, code: "unsupported_parameter" } });
}

/** Failures after which the client may safely repeat the request. */
const REPEATABLE: ReadonlySet<ErrorCode> = new Set(["too_many_requests"]);

/**
 * A failure as OpenAI answers it. OpenAI's clients automatically repeat requests after 408, 409, 429 and 5xx, without a
 * key. A header forbids that, unless the request was refused before it had an effect.
 */
export const describeOpenAiProblem: DescribeProblem = (error, traceId) => ({
  status: statusOf(error),
  headers: { ...problemHeaders(error), "x-should-retry": String(REPEATABLE.has(error.code)) },
  body: openAiProblem(error, traceId),
});
