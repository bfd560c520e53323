import { z } from "zod";
import { type AgentEntry, acceptsTurns, isOpenTo } from "../../config/catalog/catalog.ts";
import type { Routes } from "../../gateway/route-context.ts";
import { OpenAiProblem } from "./openai-problem.ts";
import { AUTO, readModel } from "./openai-request.ts";
import type { OpenAiContext } from "./openai-run.ts";

const Model = z
  .object({
    id: z.string(),
    object: z.literal("model"),
    created: z.number(),
    owned_by: z.string(),
    name: z.string(),
    description: z.string(),
  })
  .meta({ id: "Model" });
const FAILURES = { "4xx": OpenAiProblem, default: OpenAiProblem };

/** `GET /v1/models`: the agents in OpenAI's list of models. */
export function modelRoutes(app: Routes, context: OpenAiContext): void {
  const modelOf = ({ id, label, description }: AgentEntry): z.infer<typeof Model> => ({
    id,
    object: "model",
    created: Math.floor(context.catalogStatus().loadedAt / 1_000),
    owned_by: "interlock",
    name: label,
    description,
  });
  /** The model that leaves the agent to `routing`; undefined without `routing`, or for an agent of this name. */
  const auto = () => {
    const { agents, routing } = context.catalog();
    if (routing.rows.length === 0 || agents.has(AUTO)) return undefined;
    const created = Math.floor(context.catalogStatus().loadedAt / 1_000);
    const description = "the agent that the catalogue's routing names for the last message";
    return { id: AUTO, object: "model" as const, created, owned_by: "interlock", name: AUTO, description };
  };
  app.get(
    "/v1/models",
    {
      schema: {
        tags: ["doors"],
        operationId: "listModels",
        summary: "List the agents as models",
        description:
          "The enabled agents of the catalogue, in OpenAI's format; first `auto`, if the catalogue has `routing`.",
        response: { 200: z.object({ object: z.literal("list"), data: z.array(Model) }), ...FAILURES },
      },
    },
    async (request) => {
      context.callerOf(request);
      const isModel = (agent: AgentEntry) => agent.enabled && acceptsTurns(agent) && isOpenTo(agent, undefined);
      const enabled = [...context.catalog().agents.values()].filter(isModel);
      return { object: "list" as const, data: [auto() ?? [], enabled.map(modelOf)].flat() };
    },
  );
  app.get(
    "/v1/models/:model",
    {
      schema: {
        tags: ["doors"],
        operationId: "getModel",
        summary: "Show an agent as a model",
        description: "An unknown or disabled agent is 404.",
        params: z.object({ model: z.string().max(128) }),
        response: { 200: Model, ...FAILURES },
      },
    },
    async (request) => {
      context.callerOf(request);
      const catalog = context.catalog();
      const routed = request.params.model === AUTO ? auto() : undefined;
      return routed ?? modelOf(catalog.agents.get(readModel(catalog, request.params.model))!);
    },
  );
}
