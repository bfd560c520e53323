import { z } from "zod";
import { acceptsTurns, type Catalog, isOpenTo } from "../../config/catalog/catalog.ts";
import { AgentId, Name } from "../../protocol/ids.ts";
import type { CallerContext, Routes } from "../route-context.ts";

/** What these routes depend on. */
interface Context extends CallerContext {
  catalog: () => Catalog;
  isAvailable: (id: AgentId) => boolean;
}

/** Lists the agents that a session can be created with. */
export function agentRoutes(app: Routes, context: Context): void {
  app.get(
    "/agents",
    {
      schema: {
        tags: ["agents"],
        operationId: "listAgents",
        summary: "List the agents",
        description:
          "The enabled agents of the catalogue, in the file's order, then those that are defined for `workspaceId`. A session of that workspace can be created with each of them.",
        querystring: z.object({ workspaceId: Name.optional() }),
        response: {
          200: z.object({
            success: z.literal(true),
            agents: z.array(
              z.object({
                id: AgentId,
                name: z.string(),
                description: z.string(),
                priority: z.number(),
                interruptible: z.boolean(),
                capabilities: z.array(z.string()),
                modes: z
                  .array(z.string())
                  .optional()
                  .meta({ description: "choices among its tools; its sessions begin in the first" }),
                available: z.boolean(),
                workspaceId: z
                  .string()
                  .optional()
                  .meta({ description: "the agent is defined in the database, for this workspace" }),
                external: z.literal(true).optional().meta({
                  description:
                    "the agent is external: its sessions take no turns, and its participant follows their state",
                }),
                leaseMs: z
                  .number()
                  .optional()
                  .meta({ description: "the longest interval between heartbeats of its sessions, in ms" }),
                idleYields: z.literal(true).optional().meta({
                  description: "with nothing running, its session gives the floor up as soon as another waits for it",
                }),
              }),
            ),
            defaultAgentId: AgentId,
            routing: z.literal(true).optional().meta({
              description: "a sentence goes to the agent that the catalogue's `routing` names",
            }),
          }),
        },
      },
    },
    async (request) => {
      context.callerOf(request);
      const { agents, defaultAgentId, routing } = context.catalog();
      const { workspaceId } = request.query;
      const enabled = [...agents.values()].filter((agent) => agent.enabled && isOpenTo(agent, workspaceId));
      return {
        success: true as const,
        agents: enabled.map((agent) => ({
          id: agent.id,
          name: agent.label,
          description: agent.description,
          priority: agent.priority,
          interruptible: agent.interruptible,
          capabilities: agent.capabilities,
          ...(agent.modes.length > 0 && { modes: agent.modes.map(({ name }) => name) }),
          available: context.isAvailable(agent.id),
          ...(agent.workspaceId !== undefined && { workspaceId: agent.workspaceId }),
          ...(!acceptsTurns(agent) && { external: true as const }),
          ...(agent.leaseMs !== undefined && { leaseMs: agent.leaseMs }),
          ...(agent.idleYields && { idleYields: true as const }),
        })),
        defaultAgentId,
        ...(routing.rows.length > 0 && { routing: true as const }),
      };
    },
  );
}
