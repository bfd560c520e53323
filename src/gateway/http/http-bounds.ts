import { type IncomingMessage, METHODS, STATUS_CODES } from "node:http";
import type { ConnectionError, FastifyHttpOptions, FastifyInstance, RawServerDefault } from "fastify";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import type { KnownPaths } from "./known-paths.ts";
import { problemBody, problemHeaders, refusalOf } from "./problem.ts";
import type { Sockets } from "./sockets/sockets.ts";

/** Time limit for the head of a request, in ms. */
const HEAD_MS = 10_000;
/** Time limit for the whole request, in ms: the largest body over a slow line. The answer has no part in it. */
const REQUEST_MS = 60_000;
/** How often the server looks for requests that exceed these limits, in ms. */
const CHECK_MS = 1_000;
/** How long an idle connection is kept, in ms: longer than load balancers keep theirs, which is usually a minute. */
const KEEP_ALIVE_MS = 72_000;

export interface HttpBounds {
  sockets: Sockets;
  paths: KnownPaths;
  newId: () => string;
}

/** Limits for clients that send slowly or send too much, so that they cannot hold connections. */
export function httpBounds({ sockets, paths, newId }: HttpBounds) {
  const options = {
    /** A token of 12 KB, and the headers that browsers and proxies add. */
    maxHeaderSize: 16_384,
    headersTimeout: HEAD_MS,
    requestTimeout: REQUEST_MS,
    connectionsCheckingInterval: CHECK_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The system asks the other side whether it is still there; without an answer for 10 s the connection is closed.
    keepAlive: true,
    keepAliveInitialDelay: BOUNDS.keepAliveProbeMs,
    // A request without a Host is refused below, in the form of all errors.
    requireHostHeader: false,
  };
  /** The whole answer to bytes that are not a request. The connection ends after it. */
  const answerOf = (problem: AppError): string => {
    const body = JSON.stringify(problemBody(problem, newId()));
    const head = [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      ...Object.entries(problemHeaders(problem)).map(([name, value]) => `${name}: ${value}`),
      "Connection: close",
    ];
    return `${head.join("\r\n")}\r\n\r\n${body}`;
  };
  const refusalOfHead = (request: IncomingMessage): string | undefined => {
    const problem = problemOfHead(request, paths);
    return problem && answerOf(problem);
  };
  return {
    serverFactory: (handler) => sockets.serve(handler, options, refusalOfHead),
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    clientErrorHandler: (error, socket) => {
      if (error.code === "ECONNRESET") return void socket.destroy();
      sockets.endUnreadable(socket, answerOf(problemOf(error, paths)));
    },
  } satisfies FastifyHttpOptions<RawServerDefault>;
}

/**
 * The error for a request head that the RFC forbids but Node lets through. If the last coding is not `chunked`, the end
 * of the body is unknown (RFC 9112, 6.1), and Node's parser fails only when the request is in progress already. The
 * parser decodes no coding before `chunked`, and answers expectations other than `100-continue` without the handler.
 */
function problemOfHead(
  { headers, httpVersion, method, url }: IncomingMessage,
  paths: KnownPaths,
): AppError | undefined {
  const { host, "transfer-encoding": coding, expect } = headers;
  if (host === undefined && httpVersion === "1.1")
    return new AppError("bad_request", "The request has no Host header.");
  if (coding !== undefined && coding.trim().toLowerCase() !== "chunked") {
    return new AppError(
      "bad_request",
      "The request has a Transfer-Encoding other than chunked. Send it chunked, or with a Content-Length.",
    );
  }
  if (expect !== undefined && expect.trim().toLowerCase() !== "100-continue") {
    return new AppError("bad_request", "The request has an Expect header other than 100-continue. Leave it out.");
  }
  return method === "CONNECT" ? refusalOf(paths, url!) : undefined;
}

/** The request line of a request whose method is a word, but not one of HTTP's. */
const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) (\/[^\s?]{0,4096})\S* HTTP\/1\.[01]\r\n/;

/** The error for bytes that are not an HTTP request. */
function problemOf({ code, rawPacket }: ConnectionError, paths: KnownPaths): AppError {
  if (code === "HPE_HEADER_OVERFLOW") return new AppError("too_large", "The headers are too large.");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new AppError("bad_request", "The request did not arrive in time.");
  if (code === "HPE_INVALID_METHOD") {
    const [, method = "", path] = REQUEST_LINE.exec(String(rawPacket)) ?? [];
    if (path !== undefined && !METHODS.includes(method)) return refusalOf(paths, path);
  }
  return new AppError("bad_request");
}

/** Security headers for answers, which are pure data. Lower case, as replies store them. */
const HEADERS = {
  // Nothing in an answer runs, loads, or is shown inside another page.
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
  // Pages of other origins read answers where CORS allows it, and embed them nowhere.
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  // An address may hold a ticket.
  "referrer-policy": "no-referrer",
  // After a request over TLS (by a proxy), browsers never use plain HTTP again. They ignore this header on plain HTTP.
  "strict-transport-security": "max-age=31536000",
};

/** Add the security headers to every answer. */
export function guardAnswers(app: FastifyInstance): void {
  app.addHook("onRequest", (_request, reply, done) => {
    void reply.headers(HEADERS);
    done();
  });
}
