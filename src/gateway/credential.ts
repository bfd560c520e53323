import type { FastifyRequest } from "fastify";
import { AppError } from "../protocol/errors.ts";
import { ownOrigin } from "./origin.ts";

/** What a request brings to prove who it is from. */
export type Credential =
  | { kind: "token"; token: string; isCookie: boolean }
  /** Good for one event stream. */
  | { kind: "ticket"; ticket: string };

/** The cookie that pages of the node's own may have set (`POST /cookie`): an `EventSource` sends no headers of its own. */
export const TOKEN_COOKIE = "interlock_token";

/** What a token may be made of (RFC 6750), and no longer than headers may be anyway. */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]{1,12000}=*) *$/i;
const COOKIE = new RegExp(`(?:^|;)\\s*${TOKEN_COOKIE}=([A-Za-z0-9._~+/-]{1,12000}=*)\\s*(?:;|$)`);
const TICKET = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * The `Authorization` header, which is the only thing that counts when it is there; else, for an event stream, a ticket;
 * else the cookie, from pages of the node's own.
 *
 * @throws AppError `unauthorized` for what cannot be any
 */
export function credentialOf(request: FastifyRequest): Credential | undefined {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined) {
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined) throw new AppError("unauthorized", "Authorization must be Bearer and a token.");
    return { kind: "token", token, isCookie: false };
  }
  const { ticket } = request.query as { ticket?: unknown };
  if (ticket !== undefined && request.routeOptions.config.isStream) {
    if (typeof ticket === "string" && TICKET.test(ticket)) return { kind: "ticket", ticket };
    throw new AppError("unauthorized", "This is no ticket.");
  }
  const token = cookie && COOKIE.exec(cookie)?.[1];
  return token && isFromOwnPage(request) ? { kind: "token", token, isCookie: true } : undefined;
}

/**
 * Whether a browser says that the request comes from a page of the node's own. `SameSite=Strict` alone lets in every page
 * of the same site: another port of this machine, say. A browser that does not say where a read comes from shows its
 * answer to nobody else.
 */
function isFromOwnPage(request: FastifyRequest): boolean {
  const { origin, "sec-fetch-site": site } = request.headers;
  if (origin !== undefined && origin !== ownOrigin(request)) return false;
  if (site !== undefined) return site === "same-origin";
  return origin !== undefined || request.method === "GET";
}
