import { acceptsTurns, type Catalog } from "../../config/catalog/catalog.ts";
import type { RoutingRow } from "../../config/catalog/routing.ts";
import { agentsThatHear } from "../../routing/route.ts";

/** Names that one warning lists. */
const MAX_NAMED = 10;

/** Rows of `routing` that never decide, patterns that two rows share, and agents that no sentence reaches. */
export function findRoutingRisks(catalog: Catalog): string[] {
  const { rows } = catalog.routing;
  if (rows.length === 0) return [];
  return [...findUnreachedRows(catalog), ...findSharedPatterns(rows), ...findUnreachedAgents(catalog)];
}

function findUnreachedRows({ agents, routing: { rows } }: Catalog): string[] {
  const isOff = (name: string) => agents.get(name)?.enabled === false;
  const last = rows.findIndex((row) => row.kind === "agent" && !isOff(row.agent) && !agents.get(row.agent)?.critical);
  const off = rows.flatMap((row, index) =>
    (row.kind === "agent" || row.kind === "says" || row.kind === "ask") && isOff(row.agent)
      ? [`routing: row ${index + 1} never decides: ${row.agent} is disabled`]
      : [],
  );
  const hidden = rows.length - 1 - last;
  if (last < 0 || hidden === 0) return off;
  const which = hidden === 1 ? `row ${rows.length} never comes` : `rows ${last + 2} to ${rows.length} never come`;
  return [...off, `routing: ${which}: row ${last + 1} takes every sentence`];
}

function findSharedPatterns(rows: readonly RoutingRow[]): string[] {
  const first = new Map<string, number>();
  return rows.flatMap((row, index) =>
    "patterns" in row
      ? row.patterns.flatMap(({ source }) => {
          const before = first.get(source.toLowerCase());
          if (before === undefined) first.set(source.toLowerCase(), index);
          if (before === undefined || before === index) return [];
          return [
            `routing: rows ${before + 1} and ${index + 1} share the pattern ${source}: row ${before + 1} decides`,
          ];
        })
      : [],
  );
}

function findUnreachedAgents(catalog: Catalog): string[] {
  const heard = new Set<string>(agentsThatHear(catalog));
  const routers = new Set<string>(catalog.routing.rows.flatMap((row) => (row.kind === "ask" ? [row.agent] : [])));
  const missed = [...catalog.agents.values()].filter(
    (agent) => agent.enabled && acceptsTurns(agent) && !heard.has(agent.id) && !routers.has(agent.id),
  );
  if (missed.length === 0) return [];
  const named = missed.slice(0, MAX_NAMED).map(({ id }) => id);
  const names =
    missed.length > MAX_NAMED ? `${named.join(", ")} and ${missed.length - MAX_NAMED} more` : named.join(", ");
  return [`routing: no row reaches ${names}: only a message that names the agent does`];
}
