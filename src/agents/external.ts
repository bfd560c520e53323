import { AppError } from "../protocol/errors.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Agent } from "./agent.ts";

/**
 * An agent that plays for itself. Its sessions take no turns; only a run that began before the catalogue made it
 * external, or a sub-agent's task, gets here, and fails.
 */
export function createExternalAgent(id: AgentId): Agent {
  return {
    id,
    yields: "abort",
    restartable: false,
    // biome-ignore lint/correctness/useYield: there is nothing to say
    async *run() {
      throw new AppError("illegal_command", `${id} plays for itself: it takes no turns.`);
    },
  };
}
