import { z } from "zod";
import { AgentId } from "../../protocol/ids.ts";

/** The value, or undefined for another one. */
const lenient = <T extends z.ZodType>(schema: T) => schema.optional().catch(undefined);
const listOf = <T extends z.ZodType>(item: T) => z.array(item).catch([]);
const mapOf = <T extends z.ZodType>(value: T) => z.record(z.string(), value).catch({});
/** An object of lenient keys: all of them are absent from another value. */
function entryOf<T extends z.ZodRawShape>(shape: T) {
  const schema = z.object(shape);
  return schema.catch(() => schema.parse({}));
}

const Name = lenient(AgentId);
const Text = lenient(z.string());

const AgentKeys = entryOf({
  name: Name,
  enabled: z.boolean().catch(true),
  critical: z.boolean().catch(false),
  adapter: lenient(z.object({ kind: z.string() })),
  sub_agents: listOf(Name),
  replaces: listOf(Name),
  yields_to: listOf(Name),
  beneath: mapOf(z.unknown()),
  when_blocked: lenient(z.union([z.string().transform((way) => [way]), z.array(Text)])),
  when_preempted: Text,
  /** The key of a tool is written alone or with its limits. */
  tools: listOf(lenient(z.union([z.string(), z.object({ name: z.string() }).transform(({ name }) => name)]))),
  modes: listOf(entryOf({ name: Text, tools: listOf(Text), instructions: z.unknown().optional() })),
});

/**
 * The keys of a catalogue that are checked against each other, of a file that may have any other faults: what cannot be
 * read is undefined or empty, because `CatalogFile` reports it.
 */
export const LenientCatalog = entryOf({
  /** Undefined without a list. `written`: the entry as it is in the file. */
  agents: lenient(z.array(mapOf(z.unknown()).transform((written) => ({ ...AgentKeys.parse(written), written })))),
  mcp_servers: listOf(entryOf({ name: Text })),
  default_agent: Name,
  routing: listOf(entryOf({ agent: Name, ask: Name, among: listOf(Name) })),
  priority_rules: listOf(entryOf({ name: Text, agents: listOf(Name) })),
  restrictions: listOf(entryOf({ name: Text, allow: listOf(Name) })),
  user_preferences: mapOf(entryOf({ agent_priority_overrides: mapOf(z.unknown()) })),
  budgets: listOf(
    entryOf({ per: Text, agent: Name, within: Text, runs: z.unknown().optional(), tokens: z.unknown().optional() }),
  ),
  claims: listOf(z.unknown()),
});
export type LenientCatalog = z.infer<typeof LenientCatalog>;
export type LenientAgent = NonNullable<LenientCatalog["agents"]>[number];
