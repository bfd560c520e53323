import type { AgentEntry, Catalog } from "../config/catalog.ts";
import { loadCatalog } from "../config/catalog-file.ts";

/** Where lines go: `process.stdout`, or a test's ear. */
export interface Output {
  write(text: string): unknown;
}

/** With a thousand agents the pairs are half a million; after this many the rest is counted. */
const MAX_WARNINGS = 50;

/**
 * `interlock check [file]`: is this a catalogue, and does it do what its author may expect? Prints one line for each
 * fault or warning.
 *
 * @returns the exit code: 0 for a catalogue, with warnings or without; 1 for faults; 2 if there is no file to check
 */
export async function checkCatalog(path: string, out: Output): Promise<number> {
  const print = (line: string) => out.write(`${line}\n`);
  const reading = await loadCatalog(path);
  if (reading.ok) {
    const { catalog } = reading;
    const agents = catalog.agents.size === 1 ? "1 agent" : `${catalog.agents.size} agents`;
    print(`${path}: ${agents}, no faults, hash ${catalog.hash}`);
    const warnings = findStandoffs(catalog);
    for (const warning of warnings.slice(0, MAX_WARNINGS)) print(`warning: ${warning}`);
    if (warnings.length > MAX_WARNINGS) print(`warning: and ${warnings.length - MAX_WARNINGS} more such pairs`);
    return 0;
  }
  if (reading.unreadable) {
    print(`${path}: ${reading.faults[0]!.message}`);
    return 2;
  }
  for (const { line, column, path: place, message } of reading.faults) {
    print(`${path}:${line}:${column} ${place === "" ? "" : `${place}: `}${message}`);
  }
  return 1;
}

/**
 * Pairs in which the more important agent is refused: it outranks a holder that cannot be interrupted. Right for a
 * reversing camera, surprising for a phone call.
 */
function findStandoffs(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled).sort((a, b) => b.priority - a.priority);
  const isUnyielding = (agent: AgentEntry) => !agent.interruptible && agent.preemptionThreshold === undefined;
  return agents.flatMap((challenger) =>
    agents
      .filter((holder) => isUnyielding(holder) && holder.priority < challenger.priority)
      .map(
        (holder) =>
          `${challenger.id} (${challenger.priority}) cannot interrupt ${holder.id} (${holder.priority}): ` +
          `${holder.id} is not interruptible and has no preemption_threshold`,
      ),
  );
}
