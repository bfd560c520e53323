import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { CatalogStatus } from "../../config/catalog/watched-catalog.ts";
import type { Fault } from "../../config/fault.ts";
import { AppError } from "../../protocol/errors.ts";
import { HeardReport, NODE_ROLES } from "../../protocol/internal/node-report.ts";
import type { Caller } from "../access/caller.ts";
import { CatalogFault } from "../http/problem.ts";
import type { CallerContext, Routes } from "../route-context.ts";
import type { Streams } from "../streams/open-streams.ts";
import { plainAnswer } from "./openapi.ts";

const CatalogState = z.object({
  hash: z.string(),
  loadedAt: z.number(),
  faults: z.array(CatalogFault).optional().meta({ description: "the faults, for operators" }),
  faultCount: z
    .number()
    .optional()
    .meta({ description: "the faults of the current file; the previous catalogue stays in use" }),
});

const Readiness = z.object({
  status: z.enum(["ok", "not_ready"]),
  missing: z.array(z.string()),
  catalog: CatalogState,
});

/** What these routes depend on. */
interface Context extends CallerContext {
  recognize: (request: FastifyRequest) => Promise<Caller | undefined>;
  catalogStatus: () => CatalogStatus;
  missing: () => string[];
  metrics: () => Promise<{ contentType: string; text: string }>;
  callNodes: () => Promise<HeardReport[]>;
  streams: Streams;
  version: string;
}

/**
 * Health and metrics of this node, for operations. Liveness is open to every client, and by HEAD too, which monitors
 * send. Metrics are for operators, wherever they connect from, because behind a proxy on this machine every client
 * seems to come from loopback.
 */
export function healthRoutes(app: Routes, context: Context): void {
  const config = { isOpen: true, isProbe: true, acceptsAnyHost: true } as const;
  app.get(
    "/health",
    {
      exposeHeadRoute: true,
      config,
      schema: {
        tags: ["operations"],
        operationId: "getHealth",
        summary: "Check that the node is alive",
        description: "The node's version, and the number of open event streams.",
        response: { 200: z.object({ status: z.literal("ok"), connections: z.number(), version: z.string() }) },
      },
    },
    async () => ({ status: "ok" as const, connections: context.streams.count, version: context.version }),
  );

  const schema = {
    tags: ["operations"],
    operationId: "getReadiness",
    summary: "Check that the node is ready",
    description:
      "What is missing, and which catalogue is in use. Only operators see a catalogue's faults, because they quote it.",
    response: { 200: Readiness, 503: Readiness },
  };
  app.get("/ready", { exposeHeadRoute: true, config, schema }, async (request, reply) => {
    const missing = context.missing();
    const { hash, loadedAt, faults } = context.catalogStatus();
    const catalog = { hash, loadedAt, ...(faults && (await showFaults(request, faults))) };
    if (missing.length === 0) return { status: "ok" as const, missing, catalog };
    return reply.code(503).send({ status: "not_ready", missing, catalog });
  });

  /**
   * A fault quotes the catalogue, which only operators may see. A page whose own host name leads to this node names
   * another `Host`, and without authentication it would pass for the operator.
   */
  async function showFaults(request: FastifyRequest, faults: readonly Fault[]) {
    const caller = request.namesAnotherHost ? undefined : await context.recognize(request);
    return { faultCount: faults.length, ...(caller?.isOperator && { faults: [...faults] }) };
  }

  app.get(
    "/metrics",
    {
      config: { acceptsAnyHost: true },
      schema: {
        tags: ["operations"],
        operationId: "getMetrics",
        summary: "Read the node's metrics",
        description: "For operators.",
        response: { 200: plainAnswer("text/plain", "Prometheus text") },
      },
    },
    async (request, reply) => {
      const { isOperator } = context.callerOf(request);
      if (!isOperator) throw new AppError("forbidden", "Only operators may read the metrics.");
      const { contentType, text } = await context.metrics();
      return reply.type(contentType).send(text);
    },
  );

  app.get(
    "/nodes",
    {
      schema: {
        tags: ["operations"],
        operationId: "listNodes",
        summary: "Ask every node what it does",
        description:
          "For operators. The nodes of the store answer over the bus, for at most half a second; the node that answers the request comes first.",
        response: {
          200: z.object({
            nodes: z.array(HeardReport),
            absentRoles: z
              .array(z.enum(NODE_ROLES))
              .meta({ description: "roles that no node has which answers: what they do waits, or is unavailable" }),
          }),
        },
      },
    },
    async (request) => {
      const { isOperator } = context.callerOf(request);
      if (!isOperator) throw new AppError("forbidden", "Only operators may list the nodes.");
      const nodes = await context.callNodes();
      const present = new Set(nodes.flatMap(({ silentMs, roles }) => (silentMs === undefined ? roles : [])));
      return { nodes, absentRoles: NODE_ROLES.filter((role) => !present.has(role)) };
    },
  );
}
