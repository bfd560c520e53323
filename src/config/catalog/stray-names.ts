import { z } from "zod";
import { AgentId } from "../../protocol/ids.ts";

/** The key of a tool, which is written alone or with its limits. */
const ToolName = z
  .union([z.string(), z.object({ name: z.string() }).transform(({ name }) => name)])
  .optional()
  .catch(undefined);

const Mode = z
  .object({
    name: z.string().optional().catch(undefined),
    tools: z.array(z.string().optional().catch(undefined)).catch([]),
    instructions: z.unknown().optional(),
  })
  .catch({ name: undefined, tools: [], instructions: undefined });

/** Adapters whose agents have tools, and therefore modes. */
const WITH_MODES: ReadonlySet<string> = new Set(["ai-sdk", "acp"]);

/** Extracts the names from a file that may have faults elsewhere. Skips values that are not names or cannot be read. */
const Names = z
  .object({
    agents: z
      .array(
        z
          .object({
            name: AgentId.optional().catch(undefined),
            enabled: z.boolean().default(true).catch(true),
            sub_agents: namesOf(),
            beneath: z.record(z.string(), z.unknown()).default({}).catch({}),
            replaces: namesOf(),
            tools: z.array(ToolName).catch([]),
            modes: z.array(Mode).catch([]),
            adapter: z.object({ kind: z.string() }).optional().catch(undefined),
          })
          .catch({ enabled: true, sub_agents: [], beneath: {}, replaces: [], tools: [], modes: [] }),
      )
      .optional()
      .catch(undefined),
    mcp_servers: z.array(z.object({ name: z.string() }).catch({ name: "" })).catch([]),
    default_agent: AgentId.optional().catch(undefined),
    priority_rules: z.array(z.object({ agents: namesOf() }).catch({ agents: [] })).catch([]),
    restrictions: z.array(z.object({ allow: namesOf() }).catch({ allow: [] })).catch([]),
    user_preferences: z
      .record(
        z.string(),
        z.object({ agent_priority_overrides: z.record(z.string(), z.unknown()).catch({}) }).catch({
          agent_priority_overrides: {},
        }),
      )
      .catch({}),
  })
  .catch({ mcp_servers: [], priority_rules: [], restrictions: [], user_preferences: {} });

function namesOf() {
  return z.array(AgentId.optional().catch(undefined)).catch([]);
}

type NamedAgent = NonNullable<z.infer<typeof Names>["agents"]>[number];

/** A name that is duplicated or refers to no agent. */
export interface StrayName {
  path: (string | number)[];
  message: string;
}

/**
 * Check that every name in a catalogue refers to exactly one agent, in addition to the schema `CatalogFile`. Takes the
 * parsed YAML even if it has other faults, so that all faults can be reported at once.
 */
export function findStrayNames(file: unknown): StrayName[] {
  const { agents, mcp_servers, default_agent, priority_rules, restrictions, user_preferences } = Names.parse(file);
  // Without a list of agents every name is unknown; report the missing list only.
  if (!agents) return [];
  const strays: StrayName[] = [];
  const enabled = new Map<string, boolean>();
  for (const [index, { name, enabled: isEnabled }] of agents.entries()) {
    if (name === undefined) continue;
    if (enabled.has(name)) {
      strays.push({ path: ["agents", index, "name"], message: `there is already an agent ${name}` });
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
    for (const [at, name] of agent.replaces.entries()) mustBeKnown(name, "agents", index, "replaces", at);
    for (const name of Object.keys(agent.beneath)) {
      if (name !== "all" && AgentId.safeParse(name).success) mustBeKnown(name, "agents", index, "beneath", name);
    }
  }
  strays.push(...findStrayTools(agents, mcp_servers), ...agents.flatMap(findStrayModes));
  for (const [index, rule] of priority_rules.entries()) {
    for (const [at, name] of rule.agents.entries()) mustBeKnown(name, "priority_rules", index, "agents", at);
  }
  for (const [index, restriction] of restrictions.entries()) {
    for (const [at, name] of restriction.allow.entries()) mustBeKnown(name, "restrictions", index, "allow", at);
  }
  for (const [user, preferences] of Object.entries(user_preferences)) {
    for (const name of Object.keys(preferences.agent_priority_overrides)) {
      if (!AgentId.safeParse(name).success) continue;
      mustBeKnown(name, "user_preferences", user, "agent_priority_overrides", name);
    }
  }
  return strays;
}

/** Modes of agents that have none, duplicate modes, and tools of a mode that its agent lacks. */
function findStrayModes({ tools, modes, adapter }: NamedAgent, index: number): StrayName[] {
  if (modes.length === 0) return [];
  const kind = adapter?.kind ?? "scripted";
  const path = ["agents", index, "modes"];
  if (!WITH_MODES.has(kind))
    return [{ path, message: `must not be used with adapter ${kind}: the agent has no tools` }];
  const strays: StrayName[] = [];
  for (const [at, mode] of modes.entries()) {
    if (mode.name !== undefined && modes.findIndex(({ name }) => name === mode.name) < at) {
      strays.push({ path: [...path, at, "name"], message: `there is already a mode ${mode.name}` });
    }
    if (kind === "acp" && mode.instructions !== undefined) {
      const message = "must not be used with adapter acp: a conversation gets its instructions once";
      strays.push({ path: [...path, at, "instructions"], message });
    }
    for (const [place, key] of mode.tools.entries()) {
      if (key === undefined) continue;
      const isTwice = mode.tools.indexOf(key) < place;
      if (!tools.includes(key) || isTwice) {
        const message = isTwice ? `${key} is listed twice` : `${key} is not one of the agent's tools`;
        strays.push({ path: [...path, at, "tools", place], message });
      }
    }
  }
  return strays;
}

/** Tools of unknown servers, duplicate tools, and duplicate servers. */
function findStrayTools(
  agents: readonly { tools: readonly (string | undefined)[] }[],
  servers: readonly { name: string }[],
): StrayName[] {
  const strays: StrayName[] = [];
  const known = new Set<string>();
  for (const [index, { name }] of servers.entries()) {
    if (known.has(name)) {
      strays.push({ path: ["mcp_servers", index, "name"], message: `there is already a server ${name}` });
    }
    known.add(name);
  }
  for (const [index, { tools }] of agents.entries()) {
    for (const [at, key] of tools.entries()) {
      if (key === undefined) continue;
      const path = ["agents", index, "tools", at];
      const server = /^mcp:([^/]+)\//.exec(key)?.[1];
      if (server !== undefined && !known.has(server))
        strays.push({ path, message: `there is no MCP server ${server}` });
      if (tools.indexOf(key) < at) strays.push({ path, message: `the tool ${key} is listed twice` });
    }
  }
  return strays;
}
