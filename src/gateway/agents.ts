import { z } from "zod";
import { AgentId } from "../protocol/ids.ts";
import type { Door, Routes } from "./door.ts";

/** The agents a session can be made with. */
export function agentRoutes(app: Routes, door: Door): void {
  app.get(
    "/agents",
    {
      schema: {
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
                available: z.boolean(),
              }),
            ),
            defaultAgentId: AgentId,
          }),
        },
      },
    },
    async (request) => {
      await door.authenticate(request);
      const { agents, defaultAgentId } = door.catalog();
      const enabled = [...agents.values()].filter((agent) => agent.enabled);
      return {
        success: true as const,
        agents: enabled.map(({ id, label, description, priority, interruptible, capabilities }) => ({
          id,
          name: label,
          description,
          priority,
          interruptible,
          capabilities,
          available: door.isAvailable(id),
        })),
        defaultAgentId,
      };
    },
  );
}
