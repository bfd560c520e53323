import type { FastifyRequest } from "fastify";
import { AppError } from "../../protocol/errors.ts";
import { ownOrigin } from "../http/origin.ts";
import { isRepeated } from "../http/request-head.ts";

/** The credential that a request carries. */
export type Credential =
  | { kind: "token"; token: string; isCookie: boolean }
  /** Valid for one event stream. */
  | { kind: "ticket"; ticket: string };

/** The cookie that the node's own pages may set (`POST /cookie`), because an `EventSource` cannot send headers. */
const PLAIN_COOKIE = "interlock_token";
/**
 * The cookie's name over TLS. Browsers accept this prefix only from the same host and over TLS, so no other host can
 * plant one.
 */
export const TOKEN_COOKIE = `__Host-${PLAIN_COOKIE}`;

/** The cookie's name on the connection of a request. Browsers reject `__Host-` cookies without TLS. */
export const cookieNameFor = ({ protocol }: FastifyRequest): string =>
  protocol === "https" ? TOKEN_COOKIE : PLAIN_COOKIE;

/** The characters of a token (RFC 6750), up to the size that headers allow. */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]{1,12000}=*) *$/i;
const COOKIE_VALUE = /^[A-Za-z0-9._~+/-]{1,12000}=*$/;
const TICKET = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * The credential of a request. An `Authorization` header takes precedence; then, on event streams, a ticket; then the
 * cookie, if the request comes from one of the node's own pages.
 *
 * @throws AppError `unauthorized` for a malformed credential, or several
 */
export function credentialOf(request: FastifyRequest): Credential | undefined {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined) {
    // A proxy before this node may have checked another one.
    if (isRepeated(request, "authorization"))
      throw new AppError("unauthorized", "The request has two Authorization headers.");
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined)
      throw new AppError(
        "unauthorized",
        "The Authorization header is not a Bearer token. Send it as Bearer and the token.",
      );
    return { kind: "token", token, isCookie: false };
  }
  const { ticket } = request.query as { ticket?: unknown };
  if (ticket !== undefined && request.routeOptions.config.isStream) {
    if (typeof ticket === "string" && TICKET.test(ticket)) return { kind: "ticket", ticket };
    throw new AppError("unauthorized", "The ticket is malformed.");
  }
  const token = cookie === undefined ? undefined : readCookie(cookie, cookieNameFor(request));
  return token !== undefined && isFromOwnPage(request) ? { kind: "token", token, isCookie: true } : undefined;
}

/** @throws AppError `unauthorized` for two cookies of this name, because the node does not know which of them it set */
function readCookie(header: string, name: string): string | undefined {
  const values: string[] = [];
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=");
    if (at >= 0 && pair.slice(0, at).trim() === name) values.push(pair.slice(at + 1).trim());
  }
  if (values.length > 1) throw new AppError("unauthorized", `The request has more than one ${name} cookie.`);
  const [value] = values;
  return value !== undefined && COOKIE_VALUE.test(value) ? value : undefined;
}

/**
 * Whether the browser reports that the request comes from one of the node's own pages. `SameSite=Strict` is not enough:
 * it admits every page of the same site, for example on another port. A read without these headers is admitted, because
 * the browser shows its answer to no other origin.
 */
function isFromOwnPage(request: FastifyRequest): boolean {
  const { origin, "sec-fetch-site": site } = request.headers;
  if (origin !== undefined && origin !== ownOrigin(request)) return false;
  if (site !== undefined) return site === "same-origin";
  return origin !== undefined || request.method === "GET";
}
