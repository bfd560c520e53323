import type { Turn } from "../agents/agent.ts";
import { killOrphans } from "../agents/process/process-sweep.ts";
import type { Environment } from "../agents/process/program.ts";
import { createRegistry, type Registry } from "../agents/registry.ts";
import { BOUNDS } from "../config/bounds.ts";
import type { Settings } from "../config/settings.ts";
import { AppError } from "../protocol/errors.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { NodeCatalog } from "./node-catalog.ts";

export interface NodeAgentsOptions {
  roles: Settings["roles"];
  catalog: NodeCatalog;
  env: Environment;
  /** It counts elapsed time. */
  clock: Clock;
  log: Logger;
}

/**
 * The agents of the catalogue. A worker first ends the programs that an earlier worker left behind. The log names the
 * agents that cannot answer, now and after each reload of the catalogue.
 */
export async function openAgents({ roles, catalog, env, clock, log }: NodeAgentsOptions): Promise<Registry> {
  const isWorker = roles.includes("worker");
  if (isWorker) await endOrphans(log);
  const agents = createRegistry({
    catalog: catalog.current,
    env,
    clock,
    log,
    isWorker,
    limits: { requests: BOUNDS.modelRequests, programs: BOUNDS.programs },
    onFault: (fault, agentId, turn, toolName) => logFault(log, fault, agentId, turn, toolName),
  });
  warnOfExposed(agents, log);
  catalog.onReload(() => warnOfUnavailable(agents, log));
  if (isWorker || roles.includes("gateway")) warnOfUnavailable(agents, log);
  return agents;
}

/**
 * Warn of secrets that every program of an agent can read: Linux shows the environment that a process was started with.
 */
function warnOfExposed(agents: Registry, log: Logger): void {
  const variables = agents.exposed(process.env);
  if (variables.length === 0) return;
  log.warn(
    { variables },
    "programs of agents run as this node's user, and can read these variables in its environment; set NAME_FILE instead of NAME",
  );
}

/** The maximum number of warnings: one missing key may affect a thousand agents. */
const MAX_WARNED = 20;

/** Warn the operator of agents whose key is missing, before their turns fail for users. */
function warnOfUnavailable(agents: Registry, log: Logger): void {
  const unavailable = agents.unavailable();
  for (const facts of unavailable.slice(0, MAX_WARNED)) log.warn(facts, "an agent cannot answer");
  const more = unavailable.length - MAX_WARNED;
  if (more > 0) log.warn({ more }, "further agents cannot answer; `interlock check` names them");
}

/** Log what a sub-agent or a tool threw: its caller goes on. */
function logFault(log: Logger, fault: unknown, agentId: AgentId, { sessionId, runId }: Turn, toolName?: string): void {
  const about = { agentId, sessionId, runId };
  if (toolName !== undefined) return log.warn({ err: fault, ...about, toolName }, "a tool failed");
  if (!(fault instanceof AppError)) return log.error({ err: fault, ...about }, "a sub-agent failed");
  const { code, message, cause } = fault;
  log.warn({ ...about, code, reason: cause instanceof Error ? cause.message : message }, "a sub-agent failed");
}

/** Kill the programs that killed workers left behind: ADR 16. */
async function endOrphans(log: Logger): Promise<void> {
  const { killed } = await killOrphans();
  if (killed > 0) log.warn({ killed }, "killed processes that an earlier worker had left behind");
}
