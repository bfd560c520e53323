import type { Door } from "../gateway/gateway.ts";
import { formerClientRoutes } from "./former-clients/former-clients.ts";
import { mcpRoutes } from "./mcp/mcp-door.ts";
import { describeOpenAiProblem } from "./openai/openai-problem.ts";
import { openAiRoutes } from "./openai/openai-routes.ts";
import { uiChatRoutes } from "./ui-chat/ui-chat.ts";

/** Every protocol that a node speaks beside its own. */
export const DOORS: readonly Door[] = [
  { addRoutes: formerClientRoutes },
  { addRoutes: openAiRoutes, problems: { below: "/v1/", describe: describeOpenAiProblem } },
  { addRoutes: uiChatRoutes },
  { addRoutes: mcpRoutes },
];
