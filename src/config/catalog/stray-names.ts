import { AgentId } from "../../protocol/ids.ts";
import type { ValueFault } from "../fault.ts";
import { suggest } from "../nearest.ts";
import type { LenientAgent, LenientCatalog } from "./lenient-catalog.ts";
import { namesInClaim } from "./policy-claims.ts";

/** Adapters whose agents have tools, and therefore modes. */
const WITH_MODES: ReadonlySet<string> = new Set(["ai-sdk", "acp"]);

/**
 * Check that every name in a catalogue refers to exactly one agent, in addition to the schema `CatalogFile`.
 */
export function findStrayNames({ agents, ...rest }: LenientCatalog): ValueFault[] {
  // Without a list of agents every name is unknown; report the missing list only.
  if (!agents) return [];
  const known = new Set<string>(agents.flatMap(({ name }) => name ?? []));
  const unknown = [...referencesIn(agents, rest)].filter(({ name }) => !known.has(name));
  return [
    ...findDuplicates(["agents"], "an agent", agents),
    ...findDefaultFaults(agents, rest.default_agent),
    ...findDeafRows(agents, rest.routing),
    ...unknown.map(({ name, path }) => ({ path, message: `there is no agent ${name}${suggest(name, [...known])}` })),
    ...findDuplicates(["priority_rules"], "a rule", rest.priority_rules),
    ...findDuplicates(["restrictions"], "a restriction", rest.restrictions),
    ...findDuplicates(["mcp_servers"], "a server", rest.mcp_servers),
    ...findStrayTools(agents, rest.mcp_servers),
    ...agents.flatMap(findStrayModes),
  ];
}

/** Sessions name agents, decisions name rules, and refusals and the floor's view name restrictions. */
function findDuplicates(
  path: ValueFault["path"],
  noun: string,
  entries: readonly { name?: string | undefined }[],
): ValueFault[] {
  const seen = new Set<string>();
  return entries.flatMap(({ name }, index) => {
    if (name === undefined) return [];
    const isDuplicate = seen.has(name);
    seen.add(name);
    return isDuplicate ? [{ path: [...path, index, "name"], message: `there is already ${noun} ${name}` }] : [];
  });
}

/** The default agent, which sessions get that name no agent, must be enabled and take turns. */
function findDefaultFaults(agents: readonly LenientAgent[], defaultAgent: string | undefined): ValueFault[] {
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

/** A sentence is a turn, so agents that hear sentences must take turns. */
function findDeafRows(agents: readonly LenientAgent[], routing: LenientCatalog["routing"]): ValueFault[] {
  const external = new Set(agents.flatMap(({ name, adapter }) => (adapter?.kind === "external" ? (name ?? []) : [])));
  return [...inRouting(routing)]
    .filter(({ name }) => external.has(name as AgentId))
    .map(({ name, path }) => ({ path, message: `must not name ${name}: an external agent takes no turns` }));
}

interface Reference {
  name: string;
  path: (string | number)[];
}

/** Every key that names an agent. Skips keys that cannot be names of agents: the schema refuses them. */
function* referencesIn(
  agents: readonly LenientAgent[],
  {
    default_agent,
    routing,
    priority_rules,
    restrictions,
    user_preferences,
    budgets,
    claims,
  }: Omit<LenientCatalog, "agents">,
): Generator<Reference> {
  if (default_agent !== undefined) yield { name: default_agent, path: ["default_agent"] };
  for (const [index, { sub_agents, replaces, yields_to, beneath }] of agents.entries()) {
    yield* inList(sub_agents, "agents", index, "sub_agents");
    yield* inList(replaces, "agents", index, "replaces");
    yield* inList(yields_to, "agents", index, "yields_to");
    const { all: _, ...byAgent } = beneath;
    yield* inKeys(byAgent, "agents", index, "beneath");
  }
  yield* inRouting(routing);
  for (const [index, rule] of priority_rules.entries()) yield* inList(rule.agents, "priority_rules", index, "agents");
  for (const [index, restriction] of restrictions.entries()) {
    yield* inList(restriction.allow, "restrictions", index, "allow");
  }
  for (const [user, { agent_priority_overrides: overrides }] of Object.entries(user_preferences)) {
    yield* inKeys(overrides, "user_preferences", user, "agent_priority_overrides");
  }
  for (const [index, { agent }] of budgets.entries()) {
    if (agent !== undefined) yield { name: agent, path: ["budgets", index, "agent"] };
  }
  for (const [index, claim] of claims.entries()) {
    for (const { name, path } of namesInClaim(claim)) yield { name, path: ["claims", index, ...path] };
  }
}

function* inRouting(routing: LenientCatalog["routing"]): Generator<Reference> {
  for (const [index, { agent, ask, among }] of routing.entries()) {
    if (agent !== undefined) yield { name: agent, path: ["routing", index, "agent"] };
    if (ask !== undefined) yield { name: ask, path: ["routing", index, "ask"] };
    yield* inList(among, "routing", index, "among");
  }
}

function* inList(names: readonly (string | undefined)[], ...path: (string | number)[]): Generator<Reference> {
  for (const [at, name] of names.entries()) if (name !== undefined) yield { name, path: [...path, at] };
}

function* inKeys(map: object, ...path: (string | number)[]): Generator<Reference> {
  for (const name of Object.keys(map)) if (AgentId.safeParse(name).success) yield { name, path: [...path, name] };
}

/** Modes of agents that have none, duplicate modes, and tools of a mode that its agent lacks. */
function findStrayModes({ tools, modes, adapter }: LenientAgent, index: number): ValueFault[] {
  if (modes.length === 0) return [];
  const kind = adapter?.kind ?? "scripted";
  const path = ["agents", index, "modes"];
  if (!WITH_MODES.has(kind))
    return [{ path, message: `must not be used with adapter ${kind}: the agent has no tools` }];
  const strays = findDuplicates(path, "a mode", modes);
  for (const [at, mode] of modes.entries()) {
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
  listed: LenientAgent["tools"],
  tools: LenientAgent["tools"],
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

const suggestTool = (key: string, tools: LenientAgent["tools"]): string =>
  suggest(
    key,
    tools.filter((tool) => tool !== undefined),
  );

function findStrayTools(agents: readonly LenientAgent[], servers: LenientCatalog["mcp_servers"]): ValueFault[] {
  const known = new Set(servers.flatMap(({ name }) => name ?? []));
  return agents.flatMap(({ tools }, index) => strayToolsOf(tools, known, ["agents", index, "tools"]));
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
