import { STATUS_CODES } from "node:http";
import type { ConnectionError, FastifyHttpOptions, RawServerDefault } from "fastify";
import { BOUNDS } from "../config/bounds.ts";
import { AppError } from "../protocol/errors.ts";
import { problemBody } from "./problem.ts";

/** Connections beside event streams. Over the bound new ones are closed at once, before they cost anything. */
const SPARE_CONNECTIONS = 2_048;
export const MAX_CONNECTIONS = BOUNDS.streams + SPARE_CONNECTIONS;

/** What a client that sends slowly, or too much, is given: it must not keep a connection for nothing. */
export function httpBounds(newId: () => string) {
  return {
    http: {
      /** A token of 12 KB, and all that browsers and proxies add. */
      maxHeaderSize: 16_384,
      /** For the head of a request, in ms. */
      headersTimeout: 10_000,
    },
    /** For all of it, in ms: the largest body over a bad line. What the answer takes is another matter. */
    requestTimeout: 60_000,
    clientErrorHandler: (error, socket) => {
      if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
      const problem = problemOf(error);
      const body = JSON.stringify(problemBody(problem, newId()));
      const head = [
        `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
        "Content-Type: application/json; charset=utf-8",
        `Content-Length: ${Buffer.byteLength(body)}`,
        "Connection: close",
      ];
      socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
    },
  } satisfies FastifyHttpOptions<RawServerDefault>;
}

/** What is not even a request. */
function problemOf({ code }: ConnectionError): AppError {
  if (code === "HPE_HEADER_OVERFLOW") return new AppError("too_large", "The headers are too large.");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new AppError("bad_request", "The request took too long.");
  return new AppError("bad_request");
}
