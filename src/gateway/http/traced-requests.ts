import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Span, Trace, type Tracer, traceIdOf } from "../../shared/ports/tracer.ts";

/** Probes, which repeat forever and are not traced. */
const UNTRACED: ReadonlySet<string> = new Set(["/health", "/ready", "/metrics", "/nodes", "/openapi.json"]);

/**
 * Record each request as a span, within the caller's trace if the request names one. The id of that trace becomes the
 * answer's `traceId`. Event streams are left out, because their duration means nothing. Call this before other hooks
 * are added.
 */
export function traceRequests(app: FastifyInstance, tracer: Tracer): void {
  const spans = new WeakMap<FastifyRequest, Span>();
  const end = (request: FastifyRequest, status: number, failure?: string) => {
    spans.get(request)?.end({ "http.response.status_code": status }, failure);
    spans.delete(request);
  };

  app.addHook("onRequest", (request, _reply, done) => {
    const { method, headers, routeOptions } = request;
    const { url: route, config } = routeOptions;
    if (route === undefined || UNTRACED.has(route) || config.isStream) return done();
    const parent = Trace.safeParse(headers["traceparent"]).data;
    const facts = { "http.request.method": method, "http.route": route };
    const span = tracer.begin("request", `${method} ${route}`, parent, facts);
    spans.set(request, span);
    request.trace = span.trace;
    request.id = traceIdOf(span.trace);
    done();
  });
  app.addHook("onResponse", (request, { statusCode }: FastifyReply, done) => {
    end(request, statusCode, statusCode >= 500 ? `HTTP ${statusCode}` : undefined);
    done();
  });
  app.addHook("onRequestAbort", (request, done) => {
    // The status that nginx logs for a client that disconnected.
    end(request, 499, "the client hung up");
    done();
  });
}
