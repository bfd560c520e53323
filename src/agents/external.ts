import { AppError } from "../protocol/errors.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Agent } from "./agent.ts";

/**
 * An external agent. Its sessions take no turns, so this adapter only fails: for a run that began before the catalogue
 * made the agent external, or for a sub-agent's task.
 */
export function createExternalAgent(id: AgentId): Agent {
  return {
    id,
    yields: "abort",
    restartable: false,
    // biome-ignore lint/correctness/useYield: there is nothing to say
    async *run() {
      throw new AppError("illegal_command", `${id} is external: it takes no turns.`);
    },
  };
}
