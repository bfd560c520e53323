import type { Agent } from "../../../src/agents/agent.ts";
import { createRegistry, type Registry, type RegistryOptions } from "../../../src/agents/registry.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { makeCatalog } from "../catalogs/catalog.ts";

type Options = Omit<RegistryOptions, "clock"> & Partial<RegistryOptions>;

/** A registry by the time of this machine, unless a test moves its own clock. */
export const testRegistry = (options: Options): Registry => createRegistry({ clock: new SystemClock(), ...options });

/**
 * An agent of a catalogue.
 * @param entry its keys; its name is `subject` by default
 * @param options those of the registry, and the other agents of the catalogue. The environment is empty by default.
 */
export function subjectOf(
  entry: { adapter: object } & Record<string, unknown>,
  { others = [], ...options }: Partial<RegistryOptions> & { others?: readonly object[] } = {},
): { agent: Agent; registry: Registry } {
  const name = entry["name"] ?? "subject";
  const catalog = makeCatalog([{ ...entry, name }, ...others.map((other) => ({ ...other }))]);
  const registry = testRegistry({ catalog: () => catalog, env: {}, ...options });
  return { agent: registry.find(name as AgentId)!, registry };
}
