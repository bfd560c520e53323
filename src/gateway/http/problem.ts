import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { hasZodFastifySchemaValidationErrors } from "fastify-type-provider-zod";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { SpentBudget } from "../../protocol/budget.ts";
import { Decision } from "../../protocol/decision.ts";
import { AppError, ERROR_CODES, ERRORS } from "../../protocol/errors.ts";
import { SessionId } from "../../protocol/ids.ts";
import { Routed } from "../../protocol/routed.ts";
import { AgentInfo, Session } from "../../protocol/session.ts";
import { ZoneAnswer } from "../../protocol/zone-answer.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { KnownPaths } from "./known-paths.ts";

/** A fault in a catalogue, for the person who edits it. Line and column count from 1. */
export const CatalogFault = z
  .object({ line: z.number(), column: z.number(), path: z.string(), message: z.string() })
  .meta({ id: "CatalogFault" });

/** The body of every failed request. */
export const Problem = z
  .object({
    success: z.literal(false),
    errorCode: z.enum(ERROR_CODES),
    error: z.string(),
    retryable: z.boolean(),
    traceId: z.string(),
    issues: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
    faults: z.array(CatalogFault).optional().meta({ description: "the faults of a catalogue, from its top" }),
    decision: Decision.optional(),
    routed: Routed.optional().meta({ description: "of a sentence that named no agent: which agent was to hear it" }),
    allowed: z.array(z.string()).optional(),
    availableAgents: z.array(AgentInfo).optional(),
    session: Session.optional().meta({ description: "with `stale`: the session as it is" }),
    replacedBy: SessionId.optional().meta({ description: "with `session_archived`: the session in which it goes on" }),
    seq: z.number().optional().meta({ description: "with `stale`: of its newest event" }),
    commandId: z.string().optional(),
    retryAfterMs: z.number().optional(),
    zones: z.array(ZoneAnswer).optional().meta({ description: "of a request for all zones: what each floor decided" }),
    budget: SpentBudget.optional().meta({ description: "with `budget_exhausted`" }),
  })
  .meta({ id: "Problem" });

/** Convert any error to an AppError. Other errors become `internal`, without their text. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (hasZodFastifySchemaValidationErrors(error)) {
    const issues = error.validation.slice(0, BOUNDS.shownIssues).map(({ instancePath, message }) => ({
      // The path of the whole value is "/".
      path: `${error.validationContext ?? "body"}${instancePath === "/" ? "" : instancePath.replaceAll("/", ".")}`,
      message: message ?? "is not valid",
    }));
    return new AppError("bad_request", undefined, { facts: { issues } });
  }
  const { code, statusCode } = error as Partial<FastifyError>;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new AppError("too_large");
  if (code === "FST_ERR_CTP_INVALID_JSON_BODY") {
    return new AppError("bad_request", "The body is not valid JSON, or it has a key like __proto__.");
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return new AppError("bad_request", "Content-Type: application/json");
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return new AppError("bad_request");
  return new AppError("internal", undefined, { cause: error });
}

/** The body of a failure. `traceId`: finds the request in the log. */
export function problemBody(error: AppError, traceId: string): Record<string, unknown> {
  const { code, retryable, facts } = error;
  return { success: false, errorCode: code, error: sentenceOf(error), retryable, traceId, ...facts };
}

/** The same of a failure that a request would get. */
export function problemOf(error: AppError): Omit<z.infer<typeof Problem>, "success" | "traceId"> {
  const { code, retryable, facts } = error;
  return { errorCode: code, error: sentenceOf(error), retryable, ...facts };
}

/**
 * Its sentence. One that says no more than the code is followed by the first of its issues, because many clients show
 * the sentence alone.
 */
function sentenceOf({ code, message, facts }: AppError): string {
  const [first] = (facts["issues"] ?? []) as NonNullable<z.infer<typeof Problem>["issues"]>;
  if (!first || message !== ERRORS[code].text) return message;
  return `${message.replace(/\.$/, "")}: ${first.path}: ${first.message}`;
}

/** The headers of a failure. */
export function problemHeaders({ code, message, facts }: AppError): Record<string, string> {
  if (code === "unauthorized") {
    const why = message === ERRORS.unauthorized.text ? "" : `, error="invalid_token", error_description="${message}"`;
    return { "WWW-Authenticate": `Bearer realm="interlock"${why}` };
  }
  if (code === "method_not_allowed") return { Allow: (facts["allowed"] as string[]).join(", ") };
  const { retryAfterMs } = facts;
  return typeof retryAfterMs === "number" ? { "Retry-After": String(Math.ceil(retryAfterMs / 1_000)) } : {};
}

/** A failure as an answer. */
export interface ProblemAnswer {
  status: number;
  headers: Record<string, string>;
  body: object;
}

/** How failures are answered. `traceId`: finds the request in the log. */
export type DescribeProblem = (error: AppError, traceId: string) => ProblemAnswer;

/** A failure in the form that this API describes. */
export const describeProblem: DescribeProblem = (error, traceId) => ({
  status: error.status,
  headers: problemHeaders(error),
  body: problemBody(error, traceId),
});

export function sendProblem(reply: FastifyReply, { status, headers, body }: ProblemAnswer): FastifyReply {
  return reply.code(status).headers(headers).type("application/json; charset=utf-8").send(body);
}

/** The error for a request without a route. */
export function refusalOf(paths: KnownPaths, url: string): AppError {
  const allowed = paths.methodsOf(url);
  return allowed.length === 0
    ? new AppError("not_found", "Nothing exists at this address. GET /openapi.json lists what does; a page is at /.")
    : new AppError("method_not_allowed", undefined, { facts: { allowed } });
}

/** Answer every failure of the server. @param describe how failures at a URL are answered */
export function handleProblems(
  app: FastifyInstance,
  { paths, log, describe }: { paths: KnownPaths; log: Logger; describe: (url: string) => DescribeProblem },
): void {
  const send = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = toAppError(thrown);
    if (error.code === "internal") {
      const { id: traceId, commandId } = request;
      log.error({ err: error.cause ?? error, traceId, commandId }, "a request failed");
    }
    return sendProblem(reply, describe(request.url)(error, request.id));
  };
  app.decorateRequest("commandId", undefined);
  app.setErrorHandler(send);
  app.setNotFoundHandler((request, reply) => send(refusalOf(paths, request.url), request, reply));
}
