import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { AppError } from "../../protocol/errors.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { cookieNameFor, credentialOf } from "../access/credential.ts";
import type { Tickets } from "../access/tickets.ts";
import { ownOrigin } from "../http/origin.ts";
import type { CallerContext, Routes } from "../route-context.ts";

/** Browsers keep no cookie longer than this, in s. */
const MAX_COOKIE_S = 34_560_000;

const Nothing = z.strictObject({}).default({});

/**
 * Sign-in for pages, whose `EventSource` cannot send headers: a ticket for one stream, or a cookie for the node's own
 * pages. Both carry the identity of the token they were issued for, and expire with it. With authentication off, both
 * routes exist and have no effect.
 */
export function signInRoutes(app: Routes, context: CallerContext & { tickets: Tickets; clock: Clock }): void {
  app.post(
    "/ticket",
    {
      schema: {
        tags: ["access"],
        operationId: "createTicket",
        summary: "Get a ticket for one event stream",
        description:
          "For clients that cannot send headers. A ticket opens one stream within 30 s. It has no effect without authentication.",
        body: Nothing,
        response: { 200: z.object({ success: z.literal(true), ticket: z.string(), expiresAt: z.number() }) },
      },
    },
    async (request, reply) => {
      const issued = await context.tickets.issue(context.callerOf(request));
      void reply.header("Cache-Control", "no-store");
      return { success: true as const, ...issued };
    },
  );

  app.post(
    "/cookie",
    {
      schema: {
        tags: ["access"],
        operationId: "setCookie",
        summary: "Set the cookie for pages of this origin",
        description:
          "The cookie carries the identity of this request's token, and expires with it. The answer names the owner.",
        body: Nothing,
        response: {
          200: z.object({
            success: z.literal(true),
            ownerId: z.string().optional(),
            expiresAt: z.number().optional(),
          }),
        },
      },
    },
    async (request, reply) => {
      const { ownerId, expiresAt } = context.callerOf(request);
      checkOwnPage(request);
      const credential = ownerId === undefined ? undefined : credentialOf(request);
      if (credential?.kind === "token") {
        const seconds = expiresAt === undefined ? undefined : Math.ceil((expiresAt - context.clock.now()) / 1_000);
        setCookie(request, reply, credential.token, seconds);
      }
      const owner = ownerId === undefined ? {} : { ownerId };
      return { success: true as const, ...owner, ...(expiresAt !== undefined && { expiresAt }) };
    },
  );

  app.delete(
    "/cookie",
    {
      config: { isOpen: true },
      schema: {
        tags: ["access"],
        operationId: "clearCookie",
        summary: "Clear the cookie",
        description: "Succeeds without a cookie too.",
        body: Nothing,
        response: { 200: z.object({ success: z.literal(true) }) },
      },
    },
    async (request, reply) => {
      checkOwnPage(request);
      setCookie(request, reply, "", 0);
      return { success: true as const };
    },
  );
}

/** A listed page of another origin holds the token itself, and its browser would not send a cookie set here. */
function checkOwnPage(request: FastifyRequest): void {
  const { origin } = request.headers;
  if (origin !== undefined && origin !== ownOrigin(request)) {
    throw new AppError(
      "forbidden",
      "The request comes from another origin, which gets no cookie. Use a ticket of POST /ticket instead.",
    );
  }
}

/** @param seconds how long the cookie lasts; undefined: until the browser closes */
function setCookie(request: FastifyRequest, reply: FastifyReply, value: string, seconds: number | undefined): void {
  const age = seconds === undefined ? "" : `; Max-Age=${Math.min(Math.max(0, seconds), MAX_COOKIE_S)}`;
  // Browsers keep no secure cookie over plain HTTP, which is for loopback only.
  const secure = request.protocol === "https" ? "; Secure" : "";
  void reply
    .header("Set-Cookie", `${cookieNameFor(request)}=${value}; Path=/; HttpOnly; SameSite=Strict${age}${secure}`)
    .header("Cache-Control", "no-store");
}
