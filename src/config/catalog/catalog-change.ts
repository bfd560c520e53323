import { isDeepStrictEqual } from "node:util";
import type { Catalog } from "./catalog.ts";

/** The differences that a reload made, for the log: names of agents, in the order of the file. */
export interface CatalogChange {
  added: string[];
  removed: string[];
  changed: string[];
  /** The top-level keys of other parts that differ. */
  parts: string[];
}

/** What differs between two catalogues. */
export function compareCatalogs(before: Catalog, after: Catalog): CatalogChange {
  const parts = {
    default_agent: before.defaultAgentId !== after.defaultAgentId,
    mcp_servers: !isDeepStrictEqual(before.mcpServers, after.mcpServers),
    policy: !isDeepStrictEqual(before.policy, after.policy),
    priority_rules: !isDeepStrictEqual(before.priorityRules, after.priorityRules),
    routing: !isDeepStrictEqual(before.routing.rows, after.routing.rows),
    restrictions: !isDeepStrictEqual(before.restrictions, after.restrictions),
    budgets: !isDeepStrictEqual(before.budgets, after.budgets),
    claims: !isDeepStrictEqual(before.claims, after.claims),
    user_preferences: !isDeepStrictEqual(before.overrides, after.overrides),
  };
  const [old, names] = [[...before.agents.keys()], [...after.agents.keys()]];
  return {
    added: names.filter((name) => !before.agents.has(name)),
    removed: old.filter((name) => !after.agents.has(name)),
    changed: names.filter((name) => {
      const was = before.agents.get(name);
      return was !== undefined && !isDeepStrictEqual(was, after.agents.get(name));
    }),
    parts: Object.entries(parts).flatMap(([part, differs]) => (differs ? [part] : [])),
  };
}
