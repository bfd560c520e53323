import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Span, Trace, type Tracer, traceIdOf } from "../protocol/tracer.ts";

/** Asked again and again by whoever keeps the node running. */
const UNTRACED: ReadonlySet<string> = new Set(["/health", "/ready", "/metrics", "/openapi.json"]);

/**
 * Each request as a span, part of the caller's trace where it names one. Its trace's id is then what its answer calls
 * `traceId`. Event streams are left out: how long somebody reads says nothing. To be called before other hooks are added.
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
    // What nginx logs of a client that hung up.
    end(request, 499, "the client hung up");
    done();
  });
}
