import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { hasZodFastifySchemaValidationErrors } from "fastify-type-provider-zod";
import { z } from "zod";
import { Decision } from "../protocol/decision.ts";
import { AppError, ERROR_CODES, ERRORS } from "../protocol/errors.ts";
import type { Logger } from "../protocol/logger.ts";
import { AgentInfo } from "../protocol/session.ts";

/** What every failure looks like. */
export const Problem = z
  .object({
    success: z.literal(false),
    errorCode: z.enum(ERROR_CODES),
    error: z.string(),
    retryable: z.boolean(),
    traceId: z.string(),
    issues: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
    decision: Decision.optional(),
    allowed: z.array(z.string()).optional(),
    availableAgents: z.array(AgentInfo).optional(),
    commandId: z.string().optional(),
    retryAfterMs: z.number().optional(),
  })
  .meta({ id: "Problem" });

/** Any error as ours. What is not an `AppError` is `internal`, whatever it says. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (hasZodFastifySchemaValidationErrors(error)) {
    const issues = error.validation.map(({ instancePath, message }) => ({
      path: `${error.validationContext ?? "body"}${instancePath.replaceAll("/", ".")}`,
      message: message ?? "is not valid",
    }));
    return new AppError("bad_request", undefined, { facts: { issues } });
  }
  const { code, statusCode } = error as Partial<FastifyError>;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new AppError("too_large");
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return new AppError("bad_request", "Content-Type: application/json");
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return new AppError("bad_request");
  return new AppError("internal", undefined, { cause: error });
}

export function problemBody(error: AppError, traceId: string): Record<string, unknown> {
  const { code, message, retryable, facts } = error;
  return { success: false, errorCode: code, error: message, retryable, traceId, ...facts };
}

/** What a failure says outside its body. */
export function problemHeaders({ code, message, facts }: AppError): Record<string, string> {
  if (code === "unauthorized") {
    const why = message === ERRORS.unauthorized.text ? "" : `, error="invalid_token", error_description="${message}"`;
    return { "WWW-Authenticate": `Bearer realm="interlock"${why}` };
  }
  const { retryAfterMs } = facts;
  return typeof retryAfterMs === "number" ? { "Retry-After": String(Math.ceil(retryAfterMs / 1_000)) } : {};
}

/** One shape for everything that goes wrong, wherever in the server it does. */
export function handleProblems(app: FastifyInstance, log: Logger): void {
  const send = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = toAppError(thrown);
    if (error.code === "internal") {
      const { id: traceId, commandId } = request;
      log.error({ err: error.cause ?? error, traceId, commandId }, "a request failed");
    }
    return reply
      .code(error.status)
      .headers(problemHeaders(error))
      .type("application/json; charset=utf-8")
      .send(problemBody(error, request.id));
  };
  app.decorateRequest("commandId", undefined);
  app.setErrorHandler(send);
  app.setNotFoundHandler((request, reply) => send(new AppError("not_found"), request, reply));
}
