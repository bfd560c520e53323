import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { suggest } from "../../config/nearest.ts";
import { AppError } from "../../protocol/errors.ts";
import { WebhookReport, WebhookTest } from "../../protocol/internal/webhook-report.ts";
import type { CallerContext, Routes } from "../route-context.ts";

/** The webhooks of a node. */
export interface ShownWebhooks {
  list: () => Promise<WebhookReport[]>;
  /** Send a test. Undefined if the node's file has no such webhook. */
  test: (name: string) => Promise<WebhookTest | undefined>;
  /** Enable a webhook; false if it was not disabled. Undefined if the node's file has no such webhook. */
  enable: (name: string) => Promise<boolean | undefined>;
}

const NONE: ShownWebhooks = { list: async () => [], test: async () => undefined, enable: async () => undefined };

/** Shows operators the webhooks and what waits for their receivers, sends tests, and enables. */
export function webhookRoutes(app: Routes, context: CallerContext & { webhooks?: ShownWebhooks | undefined }): void {
  const { webhooks = NONE } = context;
  const onRequest = async (request: FastifyRequest) => {
    const { isOperator } = context.callerOf(request);
    if (!isOperator) throw new AppError("forbidden", "Only operators may use the webhooks.");
  };

  const unknown = async (name: string) => {
    const known = (await webhooks.list()).flatMap((each) => (each.isKnown ? [each.name] : []));
    const meant = suggest(name, known) || ".";
    return new AppError("not_found", `The file of this node has no webhook of this name${meant}`);
  };

  app.get(
    "/webhooks",
    {
      onRequest,
      schema: {
        tags: ["operations"],
        operationId: "listWebhooks",
        summary: "List the webhooks",
        description: "The webhooks of this node's file, with what waits for their receivers. Operators only.",
        response: { 200: z.object({ success: z.literal(true), webhooks: z.array(WebhookReport) }) },
      },
    },
    async () => ({ success: true as const, webhooks: await webhooks.list() }),
  );

  app.post(
    "/webhooks/:name/test",
    {
      onRequest,
      schema: {
        tags: ["operations"],
        operationId: "testWebhook",
        summary: "Send a test to a webhook's receiver",
        description:
          "A signed notice of the type `test`, sent once and at once by the node that answers, past what waits. Operators only.",
        params: z.object({ name: z.string() }),
        response: { 200: WebhookTest.extend({ success: z.literal(true) }) },
      },
    },
    async ({ params: { name } }) => {
      const result = await webhooks.test(name);
      if (result) return { success: true as const, ...result };
      throw await unknown(name);
    },
  );

  app.post(
    "/webhooks/:name/enable",
    {
      onRequest,
      schema: {
        tags: ["operations"],
        operationId: "enableWebhook",
        summary: "Enable a webhook that is disabled",
        description:
          "Send to a receiver again that answered 410, what waits first. A webhook that is not disabled stays as it is. Operators only.",
        params: z.object({ name: z.string() }),
        response: { 200: z.object({ success: z.literal(true), wasDisabled: z.boolean() }) },
      },
    },
    async ({ params: { name } }) => {
      const wasDisabled = await webhooks.enable(name);
      if (wasDisabled !== undefined) return { success: true as const, wasDisabled };
      throw await unknown(name);
    },
  );
}
