import { z } from "zod";
import { AgentId } from "../../protocol/ids.ts";
import type { ValueFault } from "../fault.ts";
import { suggest } from "../nearest.ts";
import { namesInAssertion } from "./policy-assertions.ts";

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
            yields_to: namesOf(),
            tools: z.array(ToolName).catch([]),
            modes: z.array(Mode).catch([]),
            adapter: z.object({ kind: z.string() }).optional().catch(undefined),
          })
          .catch({ enabled: true, sub_agents: [], beneath: {}, replaces: [], yields_to: [], tools: [], modes: [] }),
      )
      .optional()
      .catch(undefined),
    mcp_servers: z.array(z.object({ name: z.string() }).catch({ name: "" })).catch([]),
    default_agent: AgentId.optional().catch(undefined),
    priority_rules: z
      .array(
        z
          .object({ name: z.string().optional().catch(undefined), agents: namesOf() })
          .catch({ name: undefined, agents: [] }),
      )
      .catch([]),
    restrictions: z
      .array(
        z
          .object({ name: z.string().optional().catch(undefined), allow: namesOf() })
          .catch({ name: undefined, allow: [] }),
      )
      .catch([]),
    user_preferences: z
      .record(
        z.string(),
        z.object({ agent_priority_overrides: z.record(z.string(), z.unknown()).catch({}) }).catch({
          agent_priority_overrides: {},
        }),
      )
      .catch({}),
    claims: z.array(z.unknown()).catch([]),
  })
  .catch({ mcp_servers: [], priority_rules: [], restrictions: [], user_preferences: {}, claims: [] });

function namesOf() {
  return z.array(AgentId.optional().catch(undefined)).catch([]);
}

type NamedAgent = NonNullable<z.infer<typeof Names>["agents"]>[number];

/**
 * Check that every name in a catalogue refers to exactly one agent, in addition to the schema `CatalogFile`. Takes the
 * parsed YAML even if it has other faults, so that all faults can be reported at once.
 */
export function findStrayNames(file: unknown): ValueFault[] {
  const { agents, ...rest } = Names.parse(file);
  // Without a list of agents every name is unknown; report the missing list only.
  if (!agents) return [];
  const known = new Set<string>(agents.flatMap(({ name }) => name ?? []));
  const unknown = [...referencesIn(agents, rest)].filter(({ name }) => !known.has(name));
  return [
    ...findDuplicates("agents", "an agent", agents),
    ...findDefaultFaults(agents, rest.default_agent),
    ...unknown.map(({ name, path }) => ({ path, message: `there is no agent ${name}${suggest(name, [...known])}` })),
    ...findDuplicates("priority_rules", "a rule", rest.priority_rules),
    ...findDuplicates("restrictions", "a restriction", rest.restrictions),
    ...findStrayTools(agents, rest.mcp_servers),
    ...agents.flatMap(findStrayModes),
  ];
}

/** Sessions name agents, decisions name rules, and refusals and the floor's view name restrictions. */
function findDuplicates(key: string, noun: string, entries: readonly { name?: string | undefined }[]): ValueFault[] {
  const seen = new Set<string>();
  return entries.flatMap(({ name }, index) => {
    if (name === undefined) return [];
    const isDuplicate = seen.has(name);
    seen.add(name);
    return isDuplicate ? [{ path: [key, index, "name"], message: `there is already ${noun} ${name}` }] : [];
  });
}

/** Sessions that name no agent need one that is enabled and takes turns. */
function findDefaultFaults(agents: readonly NamedAgent[], defaultAgent: string | undefined): ValueFault[] {
  if (defaultAgent !== undefined) {
    const agent = agents.findLast(({ name }) => name === defaultAgent);
    const path = ["default_agent"];
    if (agent?.enabled === false) return [{ path, message: `the agent ${defaultAgent} is disabled` }];
    if (agent?.adapter?.kind !== "external") return [];
    return [{ path, message: `must not name ${defaultAgent}: an external agent takes no turns` }];
  }
  if (agents.length === 0 || agents.some((agent) => agent.enabled)) return [];
  return [{ path: ["agents"], message: "must have at least one agent that is enabled" }];
}

interface Reference {
  name: string;
  path: (string | number)[];
}

/** Every key that names an agent. Skips keys that cannot be names of agents: the schema refuses them. */
function* referencesIn(
  agents: readonly NamedAgent[],
  { default_agent, priority_rules, restrictions, user_preferences, claims }: Omit<z.infer<typeof Names>, "agents">,
): Generator<Reference> {
  if (default_agent !== undefined) yield { name: default_agent, path: ["default_agent"] };
  for (const [index, { sub_agents, replaces, yields_to, beneath }] of agents.entries()) {
    yield* inList(sub_agents, "agents", index, "sub_agents");
    yield* inList(replaces, "agents", index, "replaces");
    yield* inList(yields_to, "agents", index, "yields_to");
    const { all: _, ...byAgent } = beneath;
    yield* inKeys(byAgent, "agents", index, "beneath");
  }
  for (const [index, rule] of priority_rules.entries()) yield* inList(rule.agents, "priority_rules", index, "agents");
  for (const [index, restriction] of restrictions.entries()) {
    yield* inList(restriction.allow, "restrictions", index, "allow");
  }
  for (const [user, { agent_priority_overrides: overrides }] of Object.entries(user_preferences)) {
    yield* inKeys(overrides, "user_preferences", user, "agent_priority_overrides");
  }
  for (const [index, claim] of claims.entries()) {
    for (const { name, path } of namesInAssertion(claim)) yield { name, path: ["claims", index, ...path] };
  }
}

function* inList(names: readonly (string | undefined)[], ...path: (string | number)[]): Generator<Reference> {
  for (const [at, name] of names.entries()) if (name !== undefined) yield { name, path: [...path, at] };
}

function* inKeys(map: object, ...path: (string | number)[]): Generator<Reference> {
  for (const name of Object.keys(map)) if (AgentId.safeParse(name).success) yield { name, path: [...path, name] };
}

/** Modes of agents that have none, duplicate modes, and tools of a mode that its agent lacks. */
function findStrayModes({ tools, modes, adapter }: NamedAgent, index: number): ValueFault[] {
  if (modes.length === 0) return [];
  const kind = adapter?.kind ?? "scripted";
  const path = ["agents", index, "modes"];
  if (!WITH_MODES.has(kind))
    return [{ path, message: `must not be used with adapter ${kind}: the agent has no tools` }];
  const strays: ValueFault[] = [];
  for (const [at, mode] of modes.entries()) {
    if (mode.name !== undefined && modes.findIndex(({ name }) => name === mode.name) < at) {
      strays.push({ path: [...path, at, "name"], message: `there is already a mode ${mode.name}` });
    }
    if (kind === "acp" && mode.instructions !== undefined) {
      const message = "must not be used with adapter acp: a conversation gets its instructions once";
      strays.push({ path: [...path, at, "instructions"], message });
    }
    strays.push(...findStrayModeTools(mode.tools, tools, [...path, at, "tools"]));
  }
  return strays;
}

/** Tools of a mode that its agent lacks, or that the mode lists twice. */
function findStrayModeTools(
  listed: NamedAgent["modes"][number]["tools"],
  tools: NamedAgent["tools"],
  path: ValueFault["path"],
): ValueFault[] {
  const strays: ValueFault[] = [];
  for (const [at, key] of listed.entries()) {
    if (key === undefined) continue;
    if (listed.indexOf(key) < at) strays.push({ path: [...path, at], message: `${key} is listed twice` });
    else if (!tools.includes(key)) {
      strays.push({ path: [...path, at], message: `${key} is not one of the agent's tools${suggestTool(key, tools)}` });
    }
  }
  return strays;
}

const suggestTool = (key: string, tools: NamedAgent["tools"]): string =>
  suggest(
    key,
    tools.filter((tool) => tool !== undefined),
  );

/** Tools of unknown servers, duplicate tools, and duplicate servers. */
function findStrayTools(
  agents: readonly { tools: readonly (string | undefined)[] }[],
  servers: readonly { name: string }[],
): ValueFault[] {
  const strays: ValueFault[] = [];
  const known = new Set<string>();
  for (const [index, { name }] of servers.entries()) {
    if (known.has(name)) {
      strays.push({ path: ["mcp_servers", index, "name"], message: `there is already a server ${name}` });
    }
    known.add(name);
  }
  for (const [index, { tools }] of agents.entries()) {
    strays.push(...strayToolsOf(tools, known, ["agents", index, "tools"]));
  }
  return strays;
}

/** Tools of one agent that are listed twice, or whose server is unknown. */
function strayToolsOf(
  tools: readonly (string | undefined)[],
  servers: ReadonlySet<string>,
  path: ValueFault["path"],
): ValueFault[] {
  const strays: ValueFault[] = [];
  for (const [at, key] of tools.entries()) {
    if (key === undefined) continue;
    const server = /^mcp:([^/]+)\//.exec(key)?.[1];
    if (server !== undefined && !servers.has(server)) {
      strays.push({ path: [...path, at], message: `there is no MCP server ${server}${suggest(server, [...servers])}` });
    }
    if (tools.indexOf(key) < at) strays.push({ path: [...path, at], message: `the tool ${key} is listed twice` });
  }
  return strays;
}
