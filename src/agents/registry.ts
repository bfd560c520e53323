import type { AgentEntry, Catalog } from "../config/catalog/catalog.ts";
import { AppError } from "../protocol/errors.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { createAcpAgent } from "./acp/acp-agent.ts";
import { programOf } from "./acp/profiles.ts";
import type { Agent, Turn } from "./agent.ts";
import { createAiSdkAgent } from "./ai-sdk.ts";
import { createCommandAgent } from "./command/command-agent.ts";
import { findKeyProblem, keyVariable } from "./language-model.ts";
import { type Environment, locateProgram } from "./process/program.ts";
import type { ProgramTools } from "./process/program-run.ts";
import { Supervisor } from "./process/supervisor.ts";
import { createScriptedAgent } from "./scripted.ts";
import { Semaphore } from "./semaphore.ts";
import { createDelegate } from "./sub-agent.ts";
import { ToolServers } from "./tools/tool-server.ts";

/** The agents of the catalogue. */
export interface Registry {
  /** Undefined if the catalogue has no such agent. Finds disabled agents too: their sessions may finish their turns. */
  find(agentId: AgentId): Agent | undefined;
  /** Whether a session can start with this agent now, as far as this node knows without network requests. */
  isAvailable(agentId: AgentId): boolean;
  /** Whether this node can drive a run of the agent. If not, its worker leaves the run to others for a while. */
  canRun(agentId: AgentId): boolean;
  /** Why the agent is unavailable, as text for the operator; undefined if it is available. */
  findProblem(agentId: AgentId): string | undefined;
  /** The agents that are enabled but unavailable, with the reasons. */
  unavailable(): { agentId: AgentId; problem: string }[];
  /**
   * The variables with secrets that programs of agents can read in this process's environment although they are not
   * theirs; empty without such programs.
   */
  exposed(environment: Environment): string[];
  /** End the agents' programs, and start no more. */
  close(): Promise<void>;
}

export interface RegistryOptions {
  readonly catalog: () => Catalog;
  /** The environment variables that hold the providers' keys. */
  readonly env: Environment;
  /** From 0 to 1, for the jitter of retries. Default: `Math.random`. */
  readonly random?: () => number;
  /** For the timeouts of programs and how long they run: it counts elapsed time (rule C9). */
  readonly clock: Clock;
  readonly log?: Logger | undefined;
  /** How many requests to providers, and programs, this node may have at once. Further ones wait. Default: no limit. */
  readonly limits?: { readonly requests: number; readonly programs: number };
  /** Whether agents run on this node. If not, it does not check for their programs. Default: true. */
  readonly isWorker?: boolean;
  /**
   * Called with everything that a sub-agent or a tool throws: its caller goes on, and the run does not fail. `toolName`
   * is set if a tool threw. Default: such errors are dropped.
   */
  readonly onFault?: (fault: unknown, agentId: AgentId, turn: Turn, toolName?: string) => void;
}

/** An address with a password. */
const PASSWORD = /^[a-z]+:\/\/[^/@]*:[^/@]+@/i;

/** Creates agents on first use, and keeps each as long as the catalogue keeps its entry. */
export function createRegistry({
  catalog,
  env,
  random = Math.random,
  clock,
  log,
  limits = { requests: Number.POSITIVE_INFINITY, programs: Number.POSITIVE_INFINITY },
  isWorker = true,
  onFault = () => {},
}: RegistryOptions): Registry {
  const agents = new WeakMap<AgentEntry, Agent>();
  const requests = new Semaphore(limits.requests);
  const toolServers = new ToolServers(clock);
  let programs: ProgramTools | undefined;
  const programTools = () => {
    programs ??= {
      supervisor: new Supervisor({ clock, log }),
      clock,
      env,
      permits: new Semaphore(limits.programs),
      log,
    };
    return programs;
  };

  function make(entry: AgentEntry): Agent {
    const { adapter } = entry;
    const delegate = createDelegate(entry, { catalog, find, onFault });
    const tools = { catalog, programs: programTools, delegate };
    switch (adapter.kind) {
      case "scripted":
        return createScriptedAgent(entry, adapter, delegate);
      case "ai-sdk":
        return createAiSdkAgent(entry, adapter, { env, random, tools, requests, onFault });
      case "command":
        return createCommandAgent(entry, adapter, programTools);
      case "acp":
        return createAcpAgent(entry, adapter, { programs: programTools, tools, toolServers, onFault });
      case "external":
        return createExternalAgent(entry.id);
    }
  }

  function find(agentId: AgentId): Agent | undefined {
    const entry = catalog().agents.get(agentId);
    if (!entry) return undefined;
    let agent = agents.get(entry);
    if (!agent) {
      agent = make(entry);
      agents.set(entry, agent);
    }
    return agent;
  }

  /** Why this machine cannot run the adapter's program; undefined if it can, or if the adapter has none. */
  function problemOfProgram(adapter: AgentEntry["adapter"]): string | undefined {
    if (adapter.kind === "command") return locateProgram(adapter, env).problem;
    return adapter.kind === "acp" ? locateProgram(programOf(adapter), env).problem : undefined;
  }

  function canRun(agentId: AgentId): boolean {
    const adapter = catalog().agents.get(agentId)?.adapter;
    return adapter !== undefined && problemOfProgram(adapter) === undefined;
  }

  function findProblem(agentId: AgentId): string | undefined {
    const entry = catalog().agents.get(agentId);
    if (!entry) return "the catalogue has no such agent";
    if (!entry.enabled) return "it is disabled";
    const { adapter } = entry;
    if (adapter.kind === "ai-sdk") return findKeyProblem(adapter, env);
    return isWorker ? problemOfProgram(adapter) : undefined;
  }

  function unavailable(): { agentId: AgentId; problem: string }[] {
    return [...catalog().agents.values()].flatMap(({ id, enabled }) => {
      const problem = enabled ? findProblem(id) : undefined;
      return problem === undefined ? [] : [{ agentId: id, problem }];
    });
  }

  function exposed(environment: Environment): string[] {
    const entries = [...catalog().agents.values()].filter(({ enabled }) => enabled);
    const runsAsWorker = ({ adapter }: AgentEntry) =>
      (adapter.kind === "command" || adapter.kind === "acp") && adapter.run_as === undefined;
    if (!isWorker || !entries.some(runsAsWorker)) return [];
    const names = entries.flatMap(({ adapter }) => {
      if (adapter.kind === "ai-sdk") return keyVariable(adapter) ?? [];
      return "env" in adapter ? adapter.env.map((entry) => entry.split("=").at(-1)!) : [];
    });
    for (const server of catalog().mcpServers.values()) {
      names.push(...Object.values(server.headers_env), ...server.env.map((entry) => entry.split("=").at(-1)!));
    }
    const addresses = ["INTERLOCK_STORE", "INTERLOCK_BUS"].filter((name) => PASSWORD.test(environment[name] ?? ""));
    return [...new Set([...names.filter((name) => environment[name] !== undefined), ...addresses])].sort();
  }

  return {
    find,
    exposed,
    canRun,
    findProblem,
    unavailable,
    isAvailable: (agentId) => findProblem(agentId) === undefined,
    async close() {
      await Promise.all([programs?.supervisor.close(), toolServers.close()]);
    },
  };
}

/**
 * An external agent. Its sessions take no turns, so this adapter only fails: for a run that began before the catalogue
 * made the agent external, or for a sub-agent's task.
 */
function createExternalAgent(id: AgentId): Agent {
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
