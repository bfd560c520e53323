// Rule C25 of docs/inside/correctness.md.
import type { FastifyInstance, FastifyRequest } from "fastify";
import { isLoopback } from "../../config/network.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import { hasBody, isRepeated } from "./request-head.ts";

export interface OriginOptions {
  /** The address that the node listens on. */
  host: string;
  /** Additional host names of the node. */
  hosts: readonly string[];
  /** Origins whose pages may call the API, in addition to the node's own. */
  origins: readonly string[];
}

const UNKNOWN_HOST = "Unknown Host: INTERLOCK_HOSTS of the node lists the further names that it answers to.";
const FOREIGN_ORIGIN = "Foreign Origin: INTERLOCK_ORIGINS of the node lists those whose pages may call.";

/**
 * The CORS answer for a listed origin. It allows no cookies, which only the node's own pages use, and every header that
 * a preflight asks for: a program may send them too, and clients add headers of their own.
 */
export const CORS_OPTIONS = {
  methods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
  exposedHeaders: [
    "retry-after",
    "www-authenticate",
    "x-should-retry",
    "interlock-session",
    "interlock-run",
    "interlock-notice",
    "mcp-session-id",
  ],
  /** How long the browser may cache a preflight, in s. */
  maxAge: 600,
  strictPreflight: false,
};

/**
 * Protect a node on loopback (rule C25): any web page can post to it, and an attacker's host name can resolve to it.
 * The `Host` must be the node's, a foreign `Origin` must be listed, and the body of a write must be JSON, which plain
 * forms cannot send. A POST without a body needs no content type, unless the browser reports that another site sent it.
 */
export function guardOrigins(app: FastifyInstance, options: OriginOptions, log: Logger): void {
  /** Logs each value once, so that a caller that retries does not fill the log. */
  const refusalLog = (field: "origin" | "host", message: string) => {
    const logged = new Set<string>();
    return (value: string) => {
      if (logged.size >= MAX_REMEMBERED || logged.has(value)) return;
      logged.add(value);
      log.warn({ [field]: value.slice(0, MAX_LOGGED) }, message);
    };
  };
  const logOrigin = refusalLog(
    "origin",
    "a page of a foreign origin was refused; INTERLOCK_ORIGINS lists those that may call",
  );
  const logHost = refusalLog(
    "host",
    "a request for an unknown host was refused; INTERLOCK_HOSTS lists the further names of this node",
  );
  const names = new Set([options.host.toLowerCase(), ...options.hosts]);
  const isOurs = remember((header) => {
    const host = hostName(header);
    return host !== undefined && (names.has(host) || isLoopback(host));
  });
  const findSenderFault = (request: FastifyRequest): AppError | undefined => {
    const { host = "", origin } = request.headers;
    if (hasSeveralHosts(request)) return new AppError("bad_request", "The request has more than one Host header.");
    request.namesAnotherHost = !isOurs(host);
    if (request.namesAnotherHost && !request.routeOptions.config?.acceptsAnyHost) {
      logHost(host);
      return new AppError("forbidden", UNKNOWN_HOST);
    }
    const isOwn = origin === ownOrigin(request) && !request.namesAnotherHost;
    if (origin === undefined || isOwn || options.origins.includes(origin)) return undefined;
    logOrigin(origin);
    return new AppError("forbidden", FOREIGN_ORIGIN);
  };
  app.decorateRequest("namesAnotherHost", false);
  app.addHook("onRequest", (request, _reply, done) => {
    done(findSenderFault(request) ?? (writes(request) ? findWriteFault(request) : undefined));
  });
}

/** Why a write is refused although its host and its origin may call; undefined if it is not. */
function findWriteFault(request: FastifyRequest): AppError | undefined {
  const { origin, "content-type": type } = request.headers;
  // A plain form can send none of these types, so a page of another origin needs a preflight.
  const { acceptsLines, acceptsYaml } = request.routeOptions.config;
  const other = acceptsYaml ? "application/yaml" : "application/json";
  const wanted = acceptsLines ? "application/x-ndjson" : other;
  if (/^[^\s;]*/.exec(type ?? "")?.[0].toLowerCase() === wanted) return undefined;
  if (type !== undefined || hasBody(request)) {
    return new AppError("bad_request", `The request has another Content-Type. Send it as ${wanted}.`);
  }
  return origin === undefined && isFromAnotherSite(request) ? new AppError("forbidden", FOREIGN_ORIGIN) : undefined;
}

/** Whether a proxy before this node may have read another `Host` than this node does (RFC 9112, section 3.2). */
function hasSeveralHosts(request: FastifyRequest): boolean {
  if (isRepeated(request, "host")) return true;
  const { url } = request.raw;
  // A proxy goes by the host of an address in absolute form.
  const isAbsolute = !url!.startsWith("/") && url !== "*";
  return isAbsolute && URL.parse(url!)?.host !== URL.parse(`http://${request.headers.host}`)?.host;
}

/** Cached results by header. Clients use few values, and more of them gain an attacker nothing. */
const MAX_REMEMBERED = 64;
/** Characters of a refused origin that are logged. */
const MAX_LOGGED = 256;

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

/** The host name in a `Host` header: lower case, without port and brackets. */
function hostName(header: string): string | undefined {
  const url = URL.parse(`http://${header === "" ? "/" : header}`);
  if (url?.pathname !== "/" || url.username !== "" || url.search !== "") return undefined;
  return url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
}

/** The origin of the node's own pages, as the client addressed the node. */
export const ownOrigin = (request: FastifyRequest): string => `${request.protocol}://${request.headers.host}`;

function writes(request: FastifyRequest): boolean {
  const { method } = request;
  if (method === "POST") return true;
  return method !== "GET" && method !== "HEAD" && method !== "OPTIONS" && hasBody(request);
}

/** Browsers send `Origin` with every POST; older ones may send this header instead. Programs send neither. */
function isFromAnotherSite({ headers }: FastifyRequest): boolean {
  const site = headers["sec-fetch-site"];
  return site !== undefined && site !== "same-origin" && site !== "none";
}
