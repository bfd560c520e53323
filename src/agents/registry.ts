import type { AgentEntry, Catalog } from "../config/catalog.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Agent, Turn } from "./agent.ts";
import { createAiSdkAgent, type Environment, findKeyProblem } from "./ai-sdk.ts";
import { createScriptedAgent } from "./scripted.ts";
import { createDelegate } from "./sub-agent.ts";

/** The agents of the catalogue. */
export interface Registry {
  /** Undefined when the catalogue has no such agent. Finds disabled ones too: their sessions may still end their turns. */
  find(agentId: AgentId): Agent | undefined;
  /** Could a session start with this agent now, as far as this node can tell without asking anybody? */
  isAvailable(agentId: AgentId): boolean;
  /** Why it is not available, for the operator; undefined when it is. */
  findProblem(agentId: AgentId): string | undefined;
}

export interface RegistryOptions {
  readonly catalog: () => Catalog;
  /** Where keys are looked up. */
  readonly env: Environment;
  /** From 0 to 1, for the jitter of tries. Default: `Math.random`. */
  readonly random?: () => number;
  /** Hears of what a sub-agent threw that was no `AppError`. Default: nobody does. */
  readonly onFault?: (fault: unknown, agentId: AgentId, turn: Turn) => void;
}

/** Agents are made when they are first wanted, and kept as long as the catalogue keeps their entry. */
export function createRegistry({ catalog, env, random = Math.random, onFault = () => {} }: RegistryOptions): Registry {
  const agents = new WeakMap<AgentEntry, Agent>();

  function make(entry: AgentEntry): Agent {
    const { adapter } = entry;
    switch (adapter.kind) {
      case "scripted":
        return createScriptedAgent(entry, adapter, createDelegate(entry, { catalog, find, onFault }));
      case "ai-sdk":
        return createAiSdkAgent(entry, adapter, { env, random });
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

  function findProblem(agentId: AgentId): string | undefined {
    const entry = catalog().agents.get(agentId);
    if (!entry) return "the catalogue has no such agent";
    if (!entry.enabled) return "it is disabled";
    return entry.adapter.kind === "ai-sdk" ? findKeyProblem(entry.adapter, env) : undefined;
  }

  return { find, findProblem, isAvailable: (agentId) => findProblem(agentId) === undefined };
}
