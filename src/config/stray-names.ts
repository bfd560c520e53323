import { z } from "zod";
import { AgentId } from "../protocol/ids.ts";

/** The names in a file that may have faults elsewhere: what is no name, or cannot be read, is left out. */
const Names = z
  .object({
    agents: z
      .array(
        z
          .object({
            name: AgentId.optional().catch(undefined),
            enabled: z.boolean().default(true).catch(true),
            sub_agents: namesOf(),
          })
          .catch({ enabled: true, sub_agents: [] }),
      )
      .optional()
      .catch(undefined),
    default_agent: AgentId.optional().catch(undefined),
    priority_rules: z.array(z.object({ agents: namesOf() }).catch({ agents: [] })).catch([]),
    user_preferences: z
      .record(
        z.string(),
        z.object({ agent_priority_overrides: z.record(z.string(), z.unknown()).catch({}) }).catch({
          agent_priority_overrides: {},
        }),
      )
      .catch({}),
  })
  .catch({ priority_rules: [], user_preferences: {} });

function namesOf() {
  return z.array(AgentId.optional().catch(undefined)).catch([]);
}

/** A name that stands twice or points nowhere. */
export interface StrayName {
  path: (string | number)[];
  message: string;
}

/**
 * The other half of what makes a file a catalogue, beside `CatalogFile`: every name in it means one agent. Looks at a
 * file as it was read, whatever else is wrong with it, so that all faults can be told at once.
 */
export function findStrayNames(file: unknown): StrayName[] {
  const { agents, default_agent, priority_rules, user_preferences } = Names.parse(file);
  // Without a list of agents every name points nowhere; that the list is missing is the one fault.
  if (!agents) return [];
  const strays: StrayName[] = [];
  const enabled = new Map<string, boolean>();
  for (const [index, { name, enabled: isEnabled }] of agents.entries()) {
    if (name === undefined) continue;
    if (enabled.has(name)) {
      strays.push({ path: ["agents", index, "name"], message: `there is an agent ${name} already` });
    }
    enabled.set(name, isEnabled);
  }
  const mustBeKnown = (name: string | undefined, ...path: (string | number)[]) => {
    if (name !== undefined && !enabled.has(name)) strays.push({ path, message: `there is no agent ${name}` });
  };
  mustBeKnown(default_agent, "default_agent");
  if (default_agent !== undefined && enabled.get(default_agent) === false) {
    strays.push({ path: ["default_agent"], message: `the agent ${default_agent} is disabled` });
  }
  if (default_agent === undefined && agents.length > 0 && !agents.some((agent) => agent.enabled)) {
    strays.push({ path: ["agents"], message: "must have at least one agent that is enabled" });
  }
  for (const [index, agent] of agents.entries()) {
    for (const [at, name] of agent.sub_agents.entries()) mustBeKnown(name, "agents", index, "sub_agents", at);
  }
  for (const [index, rule] of priority_rules.entries()) {
    for (const [at, name] of rule.agents.entries()) mustBeKnown(name, "priority_rules", index, "agents", at);
  }
  for (const [user, preferences] of Object.entries(user_preferences)) {
    for (const name of Object.keys(preferences.agent_priority_overrides)) {
      if (!AgentId.safeParse(name).success) continue;
      mustBeKnown(name, "user_preferences", user, "agent_priority_overrides", name);
    }
  }
  return strays;
}
