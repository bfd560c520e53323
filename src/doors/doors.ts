import type { Copies } from "../copies/copies.ts";
import type { Door, GatewayContext } from "../gateway/gateway.ts";
import { formerClientRoutes, switchOutcomes } from "./former-clients.ts";
import { mcpRoutes } from "./mcp/mcp-door.ts";
import { describeOpenAiProblem } from "./openai/openai-problem.ts";
import { openAiRoutes } from "./openai/openai-routes.ts";
import { uiChatRoutes } from "./ui-chat/ui-chat.ts";

/** Every protocol that a node speaks beside its own. */
export function doorsOf(gateway: GatewayContext, copies: Copies): Door[] {
  const context = { ...gateway, copies };
  return [
    { addRoutes: (app) => formerClientRoutes(app, context), failed: switchOutcomes(gateway.catalog) },
    {
      addRoutes: (app) => openAiRoutes(app, context),
      problems: { below: "/v1/", describe: describeOpenAiProblem },
    },
    { addRoutes: (app) => uiChatRoutes(app, context) },
    { addRoutes: (app) => mcpRoutes(app, context) },
  ];
}
