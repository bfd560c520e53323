import { depth } from "../../actors/floor/arrangement.ts";
import { createRegistry } from "../../agents/registry.ts";
import type { AgentEntry, Catalog } from "../../config/catalog/catalog.ts";
import { describeRefusal, loadCatalog } from "../../config/catalog/catalog-file.ts";
import { MAX_MATRIX_AGENTS, type MatrixFormat, matrixText } from "./matrix.ts";
import { findOrderRisks, findRefusedCalls } from "./order-risks.ts";
import { findSharingRisks, hearingOf } from "./sharing-risks.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The destination of lines: `process.stdout`, or a recorder in tests. */
export interface Output {
  write(text: string): unknown;
}

/** The maximum number of printed warnings; the rest is only counted. A thousand agents form half a million pairs. */
const MAX_WARNINGS = 50;

/**
 * `interlock check [file]`: validate a catalogue and warn of effects that its author may not expect. Prints one line
 * for each fault or warning, or the matrix of a valid catalogue.
 *
 * @param env the source of provider keys
 * @returns the exit code: 0 for a valid catalogue, with or without warnings; 1 for faults, or for a catalogue with more
 *   agents than a matrix shows; 2 if the file cannot be read
 */
export async function checkCatalog(
  path: string,
  out: Output,
  env: Environment,
  matrix?: MatrixFormat,
): Promise<number> {
  const print = (line: string) => out.write(`${line}\n`);
  const reading = await loadCatalog(path);
  if (reading.ok && matrix) return printMatrix(reading.catalog, path, matrix, out);
  if (reading.ok) {
    const { catalog } = reading;
    const agents = catalog.agents.size === 1 ? "1 agent" : `${catalog.agents.size} agents`;
    print(`${path}: ${agents}, no faults, hash ${catalog.hash}`);
    const warnings = [
      ...findKeyless(catalog, env),
      ...findStandoffs(catalog),
      ...findSharingRisks(catalog),
      ...findRefusedCalls(catalog),
      ...findOrderRisks(catalog),
    ];
    for (const warning of warnings.slice(0, MAX_WARNINGS)) print(`warning: ${warning}`);
    if (warnings.length > MAX_WARNINGS) print(`warning: and ${warnings.length - MAX_WARNINGS} more`);
    return 0;
  }
  for (const line of describeRefusal(path, reading)) print(line);
  return reading.unreadable ? 2 : 1;
}

function printMatrix(catalog: Catalog, path: string, format: MatrixFormat, out: Output): number {
  const enabled = [...catalog.agents.values()].filter((agent) => agent.enabled).length;
  if (enabled > MAX_MATRIX_AGENTS) {
    out.write(`${path}: a matrix shows at most ${MAX_MATRIX_AGENTS} agents, and ${enabled} are enabled\n`);
    return 1;
  }
  out.write(matrixText(catalog, format));
  return 0;
}

/** Agents whose every turn would fail in this environment. */
function findKeyless(catalog: Catalog, env: Environment): string[] {
  return createRegistry({ catalog: () => catalog, env })
    .unavailable()
    .map(({ agentId, problem }) => `${agentId} cannot answer: ${problem}`);
}

/** Whether the challenger is heard without pausing the holder, or always. */
function isHeardWith(challenger: AgentEntry, holder: AgentEntry): boolean {
  const [mine, theirs] = [hearingOf(challenger), hearingOf(holder)];
  if (challenger.critical || depth(mine, theirs) !== undefined) return true;
  return challenger.whenBlocked.includes("duck") && depth(theirs, mine) !== undefined;
}

/**
 * Find pairs in which the agent with the higher priority is refused, because the holder cannot be interrupted. That is
 * right for a reversing camera but surprising for a phone call.
 */
function findStandoffs(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled).sort((a, b) => b.priority - a.priority);
  const isUnyielding = (agent: AgentEntry) => !agent.interruptible && agent.preemptionThreshold === undefined;
  return agents.flatMap((challenger) =>
    agents
      .filter((holder) => isUnyielding(holder) && holder.priority < challenger.priority)
      .filter((holder) => !isHeardWith(challenger, holder))
      .map(
        (holder) =>
          `${challenger.id} (${challenger.priority}) cannot interrupt ${holder.id} (${holder.priority}): ` +
          `${holder.id} is not interruptible and has no preemption_threshold`,
      ),
  );
}
