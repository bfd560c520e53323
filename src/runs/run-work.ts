import type { SessionId } from "../protocol/ids.ts";
import type { RunFailure } from "../protocol/internal/node-report.ts";
import type { RunOutcome, RunTask } from "../protocol/internal/run.ts";
import type { MessageStore } from "../store/store.ts";
import type { RunWork } from "./run-driver.ts";
import { readSummaryWork } from "./summary-reader.ts";
import { readTurn } from "./turn-reader.ts";

/**
 * Read what the agent is to do from the store.
 * @param home the name of this worker's disk, if workers have separate disks
 * @returns undefined if there is nothing to do
 */
export async function readWork(
  store: MessageStore,
  sessionId: SessionId,
  task: RunTask,
  home: string | undefined,
): Promise<RunWork | undefined> {
  if (task.purpose) return await readSummaryWork(store, sessionId, task);
  const turn = await readTurn(store, sessionId, task, home);
  return turn && { request: turn };
}

/** How a run ends that no agent begins, and why, for operators. */
export interface RunRefusal {
  outcome: RunOutcome;
  failure?: Omit<RunFailure, "at" | "agentId">;
}

/** @param hasAgent whether the catalogue has its agent; then there is nothing to do, such as a deleted message */
export function runRefusalOf({ purpose, agentId }: RunTask, hasAgent: boolean): RunRefusal {
  if (purpose && hasAgent) return { outcome: { kind: "unneeded" } };
  const refuse = (errorCode: "agent_not_found" | "internal", message: string, reason: string): RunRefusal => {
    return { outcome: { kind: "failed", code: errorCode, message }, failure: { errorCode, reason } };
  };
  if (hasAgent) return refuse("internal", "The message of this run is gone.", "the message to answer is gone");
  const message = "The catalogue has no such agent, or it writes no summaries.";
  if (purpose) return refuse("agent_not_found", message, message);
  return refuse("agent_not_found", `Invalid agent ID: ${agentId}`, "the catalogue has no such agent");
}
