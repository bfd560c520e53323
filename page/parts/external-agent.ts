import type { AgentView } from "../../src/client/answers.ts";
import type { Session } from "../../src/protocol/session.ts";

/** Whether the session's agent is external: the server refuses every message to it. */
export function isExternal(agents: readonly AgentView[], { agentId }: Pick<Session, "agentId">): boolean {
  return agents.some(({ id, external }) => id === agentId && external === true);
}
