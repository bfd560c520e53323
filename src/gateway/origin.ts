import type { FastifyInstance, FastifyRequest } from "fastify";
import { isLoopback } from "../config/settings.ts";
import { AppError } from "../protocol/errors.ts";

export interface OriginOptions {
  /** The address the node listens on. */
  host: string;
  /** Further names it answers to. */
  hosts: readonly string[];
  /** Origins whose pages may call, beside pages of its own. */
  origins: readonly string[];
}

const ALLOWED_HEADERS = "content-type, idempotency-key, last-event-id, authorization";
const ALLOWED_METHODS = "GET, POST, PUT, PATCH, DELETE";
/** How long a browser may remember a preflight, in s. */
const PREFLIGHT_S = 600;

/**
 * Loopback is not private (rule C25): any web page can post to it, and a name it controls can be made to lead there.
 * The `Host` must be ours, a foreign `Origin` must be listed, and writes must be JSON, which no plain form can send.
 */
export function guardOrigins(app: FastifyInstance, options: OriginOptions): void {
  const names = new Set([options.host.toLowerCase(), ...options.hosts]);
  app.addHook("onRequest", async (request, reply) => {
    const host = hostName(request.headers.host);
    if (host === undefined || !(names.has(host) || isLoopback(host))) throw new AppError("forbidden", "Unknown Host.");
    const { origin } = request.headers;
    if (origin !== undefined && origin !== ownOrigin(request)) {
      if (!options.origins.includes(origin)) throw new AppError("forbidden", "Foreign Origin.");
      reply.header("Access-Control-Allow-Origin", origin).header("Vary", "Origin");
      if (request.method === "OPTIONS") {
        return reply
          .header("Access-Control-Allow-Methods", ALLOWED_METHODS)
          .header("Access-Control-Allow-Headers", ALLOWED_HEADERS)
          .header("Access-Control-Max-Age", PREFLIGHT_S)
          .code(204)
          .send();
      }
    }
    if (writes(request) && !isJson(request.headers["content-type"])) {
      throw new AppError("bad_request", "A write needs Content-Type: application/json.");
    }
  });
}

/** The name in a `Host` header, lower case, without port and brackets. */
function hostName(header: string | undefined): string | undefined {
  const url = URL.parse(`http://${header ?? "/"}`);
  if (url?.pathname !== "/" || url.username !== "" || url.search !== "") return undefined;
  return url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
}

const ownOrigin = (request: FastifyRequest): string => `${request.protocol}://${request.headers.host}`;

function writes({ method, headers }: FastifyRequest): boolean {
  if (method === "POST") return true;
  if (method === "GET" || method === "HEAD" || method === "OPTIONS") return false;
  return Number(headers["content-length"] ?? 0) > 0 || headers["transfer-encoding"] !== undefined;
}

const isJson = (type: string | undefined): boolean => /^application\/json\s*(;|$)/i.test(type ?? "");
