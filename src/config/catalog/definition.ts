import { z } from "zod";
import { AgentId, Name } from "../../protocol/ids.ts";
import { cleanText } from "../../shared/text.ts";
import { type AgentEntry, type Catalog, definedId } from "./catalog.ts";

/** The longest instructions of a definition, in UTF-16 units. */
export const MAX_INSTRUCTIONS = 32_768;

const text = (max: number) => z.string().max(max).overwrite(cleanText);

/**
 * The fields of an agent that is defined in the database. They choose among the models and tools of the file, and add
 * none.
 */
const settings = {
  basedOn: AgentId.meta({ description: "an agent of the file: the definition uses its model, and at most its tools" }),
  label: text(128).min(1).optional(),
  description: text(1_024).optional(),
  instructions: text(MAX_INSTRUCTIONS).optional(),
  tools: z
    .array(z.string().max(256))
    .max(64)
    .optional()
    .meta({ description: "keys of tools that the agent of the file has; default: all of them" }),
  maxSteps: z.int().min(1).max(1_000).optional(),
  subAgents: z.array(AgentId).max(100).optional(),
  maxDepth: z.int().min(1).max(16).optional(),
  priority: z.int().min(0).max(100).optional(),
  interruptible: z.boolean().optional(),
};

/** An agent of one workspace. It inherits omitted fields from the agent of the file. */
export const AgentDefinition = z
  .object({ name: AgentId, workspaceId: Name, ...settings, enabled: z.boolean().default(true) })
  .meta({ id: "AgentDefinition" });
export type AgentDefinition = z.infer<typeof AgentDefinition>;

/** A change of a definition. Null resets a setting to that of the agent of the file. */
export const DefinitionPatch = z
  .object({
    basedOn: settings.basedOn,
    label: settings.label.unwrap().nullable(),
    description: settings.description.unwrap().nullable(),
    instructions: settings.instructions.unwrap().nullable(),
    tools: settings.tools.unwrap().nullable(),
    maxSteps: settings.maxSteps.unwrap().nullable(),
    subAgents: settings.subAgents.unwrap().nullable(),
    maxDepth: settings.maxDepth.unwrap().nullable(),
    priority: settings.priority.unwrap().nullable(),
    interruptible: settings.interruptible.unwrap().nullable(),
    enabled: z.boolean(),
  })
  .partial();
export type DefinitionPatch = z.infer<typeof DefinitionPatch>;

/** Why a definition cannot be used as an agent, and the field at fault. */
export interface DefinitionFault {
  path: keyof AgentDefinition;
  message: string;
}

/** Kinds of adapters that a definition may use. Only the file may define programs and external agents. */
const KINDS: ReadonlySet<string> = new Set(["ai-sdk", "scripted"]);

/** Check a definition against the catalogue of the file. */
export function findDefinitionFault(file: Catalog, definition: AgentDefinition): DefinitionFault | undefined {
  const { name, workspaceId, basedOn, tools = [], subAgents = [] } = definition;
  if (file.agents.has(name) || file.agents.has(definedId(name, workspaceId))) {
    return { path: "name", message: `the catalogue already has an agent ${name}` };
  }
  const base = file.agents.get(basedOn);
  if (!base) return { path: "basedOn", message: `the catalogue has no agent ${basedOn}` };
  if (!KINDS.has(base.adapter.kind)) {
    return { path: "basedOn", message: `${basedOn} is of kind ${base.adapter.kind}; only models and scripted agents` };
  }
  const known = new Set(base.tools.map((tool) => tool.name));
  const stray = tools.find((key, index) => !known.has(key) || tools.indexOf(key) < index);
  if (stray !== undefined) {
    const why = known.has(stray) ? "is listed twice" : `is not a tool of ${basedOn}`;
    return { path: "tools", message: `the tool ${stray} ${why}` };
  }
  if (subAgents.includes(name)) return { path: "subAgents", message: "an agent is not its own sub-agent" };
  return findExcess(base, definition);
}

/** A definition may limit its base further, and never less. */
function findExcess(base: AgentEntry, { subAgents, ...fields }: AgentDefinition): DefinitionFault | undefined {
  for (const path of ["maxSteps", "maxDepth"] as const) {
    const number = fields[path];
    if (number !== undefined && number > base[path]) {
      return { path, message: `${base.id} has ${base[path]}, and an agent that is based on it may not have more` };
    }
  }
  // An agent without a list may call every agent.
  if (!subAgents || base.subAgents.length === 0) return undefined;
  if (subAgents.length === 0) {
    return { path: "subAgents", message: `an empty list means every agent, and ${base.id} may not call every agent` };
  }
  const stray = subAgents.find((agent) => !base.subAgents.includes(agent));
  if (stray === undefined) return undefined;
  return { path: "subAgents", message: `${stray} is not a sub-agent of ${base.id}` };
}

/** The catalogue of the file with the defined agents added. Definitions with a fault are left out. */
export function withDefinitions(file: Catalog, definitions: readonly AgentDefinition[]): Catalog {
  const agents = new Map(file.agents);
  for (const definition of definitions) {
    const entry = entryOf(file, definition);
    if (entry) agents.set(entry.id, entry);
  }
  return { ...file, agents };
}

/** Caches entries by their base, so that an agent is rebuilt only when its base or its definition changes. */
const known = new WeakMap<AgentEntry, WeakMap<AgentDefinition, AgentEntry>>();

function entryOf(file: Catalog, definition: AgentDefinition): AgentEntry | undefined {
  const base = file.agents.get(definition.basedOn);
  if (!base || findDefinitionFault(file, definition)) return undefined;
  const made = known.get(base) ?? new WeakMap<AgentDefinition, AgentEntry>();
  known.set(base, made);
  const entry = made.get(definition) ?? makeEntry(base, definition);
  made.set(definition, entry);
  return entry;
}

function makeEntry(base: AgentEntry, definition: AgentDefinition): AgentEntry {
  const { name, workspaceId, label, description, instructions, tools, subAgents, enabled } = definition;
  return {
    ...base,
    id: definedId(name, workspaceId),
    label: label ?? name,
    description: description ?? base.description,
    instructions: instructions ?? base.instructions,
    tools: tools ? base.tools.filter((tool) => tools.includes(tool.name)) : base.tools,
    maxSteps: definition.maxSteps ?? base.maxSteps,
    subAgents: subAgents ?? base.subAgents,
    maxDepth: definition.maxDepth ?? base.maxDepth,
    priority: definition.priority ?? base.priority,
    interruptible: definition.interruptible ?? base.interruptible,
    enabled,
    workspaceId,
  };
}
