import { z } from "zod";
import { AppError } from "../protocol/errors.ts";
import type { Door, Routes } from "./door.ts";
import { plainAnswer } from "./openapi.ts";

const CatalogState = z.object({
  hash: z.string(),
  loadedAt: z.number(),
  faults: z
    .array(z.object({ line: z.number(), column: z.number(), path: z.string(), message: z.string() }))
    .optional()
    .meta({ description: "of the file as it stands; the catalogue before it goes on serving" }),
});

const Readiness = z.object({
  status: z.enum(["ok", "not_ready"]),
  missing: z.array(z.string()),
  catalog: CatalogState,
});

/**
 * For whoever keeps the node running. They speak of this node alone. Whether it lives anybody may know; what it counts is
 * for operators, wherever they ask from: behind a proxy of this machine everybody comes from loopback.
 */
export function healthRoutes(app: Routes, door: Door): void {
  app.get(
    "/health",
    {
      config: { isOpen: true },
      schema: {
        response: { 200: z.object({ status: z.literal("ok"), connections: z.number(), version: z.string() }) },
      },
    },
    async () => ({ status: "ok" as const, connections: door.streams.count, version: door.version }),
  );

  const config = { isOpen: true } as const;
  app.get("/ready", { config, schema: { response: { 200: Readiness, 503: Readiness } } }, async (_, reply) => {
    const missing = door.missing();
    const { hash, loadedAt, faults } = door.catalogStatus();
    const catalog = { hash, loadedAt, ...(faults && { faults: [...faults] }) };
    if (missing.length === 0) return { status: "ok" as const, missing, catalog };
    return reply.code(503).send({ status: "not_ready", missing, catalog });
  });

  app.get(
    "/metrics",
    { schema: { response: { 200: plainAnswer("text/plain", "Prometheus text") } } },
    async (request, reply) => {
      const { isOperator } = await door.authenticate(request);
      if (!isOperator) throw new AppError("forbidden", "Metrics are for operators.");
      const { contentType, text } = await door.metrics();
      return reply.type(contentType).send(text);
    },
  );
}
