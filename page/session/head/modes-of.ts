import type { AgentView } from "../../../src/client/answers.ts";
import type { Session } from "../../../src/protocol/session.ts";

export interface Modes {
  names: readonly string[];
  current: string;
}

/**
 * The modes of a session's agent, and the session's own; undefined if there are none. Without a valid mode a turn uses
 * the agent's first one.
 * @param isLive false for a past moment, whose mode may be missing in today's catalogue: then it is added to the names
 */
export function modesOf(
  agents: readonly Pick<AgentView, "id" | "modes">[],
  { agentId, mode }: Pick<Session, "agentId" | "mode">,
  isLive: boolean,
): Modes | undefined {
  const names = agents.find(({ id }) => id === agentId)?.modes ?? [];
  if (mode !== undefined && names.includes(mode)) return { names, current: mode };
  if (mode !== undefined && !isLive) return { names: [mode, ...names], current: mode };
  return names[0] === undefined ? undefined : { names, current: names[0] };
}
