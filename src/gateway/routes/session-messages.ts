import { z } from "zod";
import { AppError } from "../../protocol/errors.ts";
import { MessageId, SessionId } from "../../protocol/ids.ts";
import { LogLine, Message } from "../../protocol/message.ts";
import { incarnationOf, logPosition } from "../../protocol/position.ts";
import type { StoreEpoch } from "../../store/store.ts";
import type { CommandContext, Routes } from "../route-context.ts";
import { plainAnswer } from "./openapi.ts";
import { CommandBody, commandSession, SessionParams } from "./session-command.ts";

/** Serves a session's messages, their images, and their agents' logs. */
export function sessionMessageRoutes(app: Routes, context: CommandContext & { store: StoreEpoch }): void {
  const { store, visibleTo } = context;

  app.get(
    "/session/:id/messages",
    {
      schema: {
        tags: ["messages"],
        operationId: "listMessages",
        summary: "List the messages of a session",
        description: "Oldest first. Without `after` and `before`, the newest messages.",
        params: SessionParams,
        querystring: z.object({
          after: MessageId.optional(),
          before: MessageId.optional(),
          limit: z.coerce.number().int().min(1).max(500).default(100),
        }),
        response: {
          200: z.object({
            success: z.literal(true),
            messages: z.array(Message),
            hasMore: z.boolean(),
            position: z.string(),
          }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { id } = request.params;
      const { after, before } = request.query;
      if (after !== undefined && before !== undefined)
        throw new AppError("bad_request", "The request has both after and before. Use one of them.");
      const page = await visibleTo(caller).messages(id, request.query);
      return {
        success: true as const,
        messages: page.messages,
        hasMore: page.hasMore,
        position: logPosition(store.epoch, page.head, incarnationOf(page.createdAt)),
      };
    },
  );

  app.get(
    "/session/:id/queue",
    {
      schema: {
        tags: ["messages"],
        operationId: "listQueue",
        summary: "List the queued turns",
        description: "In the order in which they will run. A queued turn can be withdrawn.",
        params: SessionParams,
        querystring: z.object({ after: MessageId.optional() }),
        response: {
          200: z.object({ success: z.literal(true), messages: z.array(Message), hasMore: z.boolean() }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      return { success: true as const, ...(await visibleTo(caller).queue(request.params.id, request.query.after)) };
    },
  );

  app.delete(
    "/session/:id/messages/:messageId",
    {
      schema: {
        tags: ["messages"],
        operationId: "withdrawMessage",
        summary: "Withdraw a queued message",
        description: "Only a turn that is still queued can be withdrawn.",
        params: z.object({ id: SessionId, messageId: MessageId }),
        body: CommandBody,
        response: { 200: z.object({ success: z.literal(true), deleted: z.literal(true) }) },
      },
    },
    async (request) => {
      const { id, messageId } = request.params;
      const withdraw = (sessionId: SessionId) => ({ type: "session.withdraw" as const, sessionId, messageId });
      await commandSession(context, request, id, withdraw);
      return { success: true as const, deleted: true as const };
    },
  );

  app.get(
    "/session/:id/messages/:messageId/logs",
    {
      schema: {
        tags: ["messages"],
        operationId: "listLogLines",
        summary: "List the log of an agent for a message",
        description: "Oldest first.",
        params: z.object({ id: SessionId, messageId: MessageId }),
        querystring: z.object({
          after: MessageId.optional(),
          limit: z.coerce.number().int().min(1).max(1_000).default(200),
        }),
        response: { 200: z.object({ success: z.literal(true), logs: z.array(LogLine), hasMore: z.boolean() }) },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { id, messageId } = request.params;
      const { after, limit } = request.query;
      const page = await visibleTo(caller).logs(id, messageId, { ...(after !== undefined && { after }), limit });
      return { success: true as const, ...page };
    },
  );

  app.get(
    "/session/:id/images/:hash",
    {
      schema: {
        tags: ["messages"],
        operationId: "getImage",
        summary: "Read an image",
        description: "The bytes of an image in a message of the session.",
        params: z.object({ id: SessionId, hash: z.string().regex(/^[a-f0-9]{64}$/) }),
        response: { 200: plainAnswer("image/*", "the bytes of the image") },
      },
    },
    async (request, reply) => {
      const caller = context.callerOf(request);
      const { id, hash } = request.params;
      const blob = await visibleTo(caller).image(id, hash);
      return reply
        .type(blob.mimeType)
        .header("Cache-Control", "private, max-age=31536000, immutable")
        .header("X-Content-Type-Options", "nosniff")
        .header("Content-Security-Policy", "default-src 'none'; sandbox")
        .send(Buffer.from(blob.bytes));
    },
  );
}
