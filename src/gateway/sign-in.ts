import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { AppError } from "../protocol/errors.ts";
import { credentialOf, TOKEN_COOKIE } from "./credential.ts";
import type { Door, Routes } from "./door.ts";
import { ownOrigin } from "./origin.ts";

/** Browsers keep no cookie longer than this, in s. */
const MAX_COOKIE_S = 34_560_000;

const Nothing = z.object({}).default({});

/**
 * For pages, whose `EventSource` sends no headers: a ticket for one stream, or a cookie for pages of the node's own. Both
 * stand for the token they were got with, and end with it. Where nobody is told apart both are there and mean nothing.
 */
export function signInRoutes(app: Routes, door: Door): void {
  app.post(
    "/ticket",
    {
      schema: {
        body: Nothing,
        response: { 200: z.object({ success: z.literal(true), ticket: z.string(), expiresAt: z.number() }) },
      },
    },
    async (request, reply) => {
      const issued = await door.tickets.issue(await door.authenticate(request));
      void reply.header("Cache-Control", "no-store");
      return { success: true as const, ...issued };
    },
  );

  app.post(
    "/cookie",
    {
      schema: {
        body: Nothing,
        response: { 200: z.object({ success: z.literal(true), expiresAt: z.number().optional() }) },
      },
    },
    async (request, reply) => {
      const { ownerId, expiresAt } = await door.authenticate(request);
      checkOwnPage(request);
      const credential = ownerId === undefined ? undefined : credentialOf(request);
      if (credential?.kind === "token") {
        const seconds = expiresAt === undefined ? undefined : Math.ceil((expiresAt - door.clock.now()) / 1_000);
        setCookie(request, reply, credential.token, seconds);
      }
      return { success: true as const, ...(expiresAt !== undefined && { expiresAt }) };
    },
  );

  app.delete(
    "/cookie",
    {
      config: { isOpen: true },
      schema: { body: Nothing, response: { 200: z.object({ success: z.literal(true) }) } },
    },
    async (request, reply) => {
      checkOwnPage(request);
      setCookie(request, reply, "", 0);
      return { success: true as const };
    },
  );
}

/** A listed page of another origin has the token itself; what it would set here, its browser would not send. */
function checkOwnPage(request: FastifyRequest): void {
  const { origin } = request.headers;
  if (origin !== undefined && origin !== ownOrigin(request)) {
    throw new AppError("forbidden", "A cookie is for pages of this origin; others use a ticket.");
  }
}

/** @param seconds how long it lasts; undefined: as long as the browser is open */
function setCookie(request: FastifyRequest, reply: FastifyReply, value: string, seconds: number | undefined): void {
  const age = seconds === undefined ? "" : `; Max-Age=${Math.min(Math.max(0, seconds), MAX_COOKIE_S)}`;
  // Over plain HTTP, which is for loopback, browsers would not keep a secure one.
  const secure = request.protocol === "https" ? "; Secure" : "";
  void reply
    .header("Set-Cookie", `${TOKEN_COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict${age}${secure}`)
    .header("Cache-Control", "no-store");
}
