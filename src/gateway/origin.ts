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

/** What a listed page's browser is told (CORS). It sends no cookies: those are for pages of the node's own. */
export const CORS_OPTIONS = {
  methods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
  allowedHeaders: ["content-type", "idempotency-key", "last-event-id", "authorization"],
  exposedHeaders: ["retry-after", "www-authenticate"],
  /** How long it may remember a preflight, in s. */
  maxAge: 600,
  strictPreflight: false,
};

/**
 * Loopback is not private (rule C25): any web page can post to it, and a name it controls can be made to lead there.
 * The `Host` must be ours, a foreign `Origin` must be listed, and writes must be JSON, which no plain form can send.
 */
export function guardOrigins(app: FastifyInstance, options: OriginOptions): void {
  const names = new Set([options.host.toLowerCase(), ...options.hosts]);
  const isOurs = remember((header) => {
    const host = hostName(header);
    return host !== undefined && (names.has(host) || isLoopback(host));
  });
  app.addHook("onRequest", (request, _reply, done) => {
    const { host = "", origin } = request.headers;
    if (!isOurs(host)) return done(new AppError("forbidden", "Unknown Host."));
    if (origin !== undefined && origin !== ownOrigin(request)) {
      if (!options.origins.includes(origin)) return done(new AppError("forbidden", "Foreign Origin."));
    }
    const isPlain = writes(request) && !isJson(request.headers["content-type"]);
    done(isPlain ? new AppError("bad_request", "A write needs Content-Type: application/json.") : undefined);
  });
}

/** Answers by header that are kept; clients use few, whoever tries many gains nothing by it. */
const MAX_REMEMBERED = 64;

function remember(judge: (header: string) => boolean): (header: string) => boolean {
  const known = new Map<string, boolean>();
  return (header) => {
    let verdict = known.get(header);
    if (verdict === undefined) {
      verdict = judge(header);
      if (known.size >= MAX_REMEMBERED) known.clear();
      known.set(header, verdict);
    }
    return verdict;
  };
}

/** The name in a `Host` header, lower case, without port and brackets. */
function hostName(header: string): string | undefined {
  const url = URL.parse(`http://${header === "" ? "/" : header}`);
  if (url?.pathname !== "/" || url.username !== "" || url.search !== "") return undefined;
  return url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
}

export const ownOrigin = (request: FastifyRequest): string => `${request.protocol}://${request.headers.host}`;

function writes({ method, headers }: FastifyRequest): boolean {
  if (method === "POST") return true;
  if (method === "GET" || method === "HEAD" || method === "OPTIONS") return false;
  return Number(headers["content-length"] ?? 0) > 0 || headers["transfer-encoding"] !== undefined;
}

const isJson = (type: string | undefined): boolean => /^application\/json\s*(;|$)/i.test(type ?? "");
