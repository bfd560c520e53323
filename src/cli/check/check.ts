import { createRegistry } from "../../agents/registry.ts";
import type { Catalog } from "../../config/catalog/catalog.ts";
import { type Circumstances, findStrays } from "../../policy/circumstances.ts";
import { whyNoMatrix } from "../../policy/matrix.ts";
import { SystemClock } from "../../system/system-clock.ts";
import { counted, type Output, printLines } from "../printed-lines.ts";
import { catalogOrCode } from "../read-catalog.ts";
import { wrapToWidth } from "../text-width.ts";
import { differenceText } from "./difference-text.ts";
import { findIdleSettings } from "./idle-settings.ts";
import { type MatrixFormat, matrixText } from "./matrix-text.ts";
import { findOrderRisks, findRefusedCalls, whyOrderUnchecked } from "./order-risks.ts";
import { findRoutingRisks } from "./routing-risks.ts";
import { findSharingRisks } from "./sharing-risks.ts";
import { findSilenceRisks } from "./silence-risks.ts";
import { findTies, whyTiesUnchecked } from "./ties.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Columns of a line on a terminal. In a pipe, each fault and each warning is one line. */
const MAX_COLUMNS = 80;
/** What the lines after the first of a fault or a warning begin with. */
const INDENT = "  ";

/** The maximum number of printed warnings; the rest is only counted. A thousand agents form half a million pairs. */
const MAX_WARNINGS = 50;

/** What is printed in place of warnings. */
export interface ShownMatrix extends Circumstances {
  format: MatrixFormat;
  /** Another catalogue: only the cells that it would change are printed. */
  diff?: string | undefined;
}

export interface CheckOptions {
  /** Warnings make the exit code 2. */
  strict?: boolean | undefined;
  matrix?: ShownMatrix | undefined;
}

/**
 * `interlock check [file]`: validate a catalogue and warn of effects that its author may not expect. Prints one line
 * for each fault or warning, in 80 columns on a terminal, or the matrix of a valid catalogue.
 *
 * @param env the source of provider keys
 * @returns the exit code: 0 for a valid catalogue; 1 for faults, for a catalogue with more agents than a matrix shows,
 *   and for a user or a flag that it does not name; 2 if a file cannot be read, or has warnings that are `strict`
 */
export async function checkCatalog(
  path: string,
  out: Output,
  env: Environment,
  { strict = false, matrix }: CheckOptions = {},
): Promise<number> {
  const print = (line: string) => printLines(out, linesOf(line, out));
  const read = await catalogOrCode(path, print);
  if (typeof read === "number") return read;
  if (matrix) return printMatrix(read, path, matrix, out);
  print(`${path}: ${counted(read.agents.size, "agent")}, no faults, hash ${read.hash}`);
  const warnings = [
    ...findKeyless(read, env),
    ...findSilenceRisks(read),
    ...findSharingRisks(read),
    ...findRefusedCalls(read),
    ...findTies(read),
    ...findOrderRisks(read),
    ...findIdleSettings(read),
    ...findRoutingRisks(read),
  ];
  for (const warning of warnings.slice(0, MAX_WARNINGS)) print(`warning: ${warning}`);
  if (warnings.length > MAX_WARNINGS) print(`warning: and ${warnings.length - MAX_WARNINGS} more`);
  for (const reason of [whyTiesUnchecked(read), whyOrderUnchecked(read)]) {
    if (reason !== undefined) print(`not checked: ${reason}`);
  }
  return strict && warnings.length > 0 ? 2 : 0;
}

/** A sentence as it is, or broken for a terminal. */
function linesOf(sentence: string, { isTTY }: Output): string[] {
  if (!isTTY) return [sentence];
  const [first = "", ...rest] = wrapToWidth(sentence, MAX_COLUMNS - INDENT.length);
  return [first, ...rest.map((line) => INDENT + line)];
}

async function printMatrix(catalog: Catalog, path: string, query: ShownMatrix, out: Output): Promise<number> {
  const print = (line: string) => printLines(out, linesOf(line, out));
  const other = query.diff === undefined ? undefined : await catalogOrCode(query.diff, print);
  if (typeof other === "number") return other;
  const checked = [{ path, catalog }, ...(other ? [{ path: query.diff!, catalog: other }] : [])];
  const tooLarge = checked.flatMap(({ path: file, catalog: each }) => {
    const reason = whyNoMatrix(each);
    return reason === undefined ? [] : [`${file}: ${reason}`];
  });
  // A user or a flag may be new in the other catalogue.
  const [strays = [], ...othersStrays] = checked.map(({ catalog: each }) => findStrays(each, query));
  const unknown = othersStrays.length > 0 ? strays.filter((stray) => othersStrays[0]?.includes(stray)) : strays;
  const refusals = [...tooLarge, ...unknown.map((stray) => `${path}: ${stray}`)];
  for (const refusal of refusals) print(refusal);
  if (refusals.length > 0) return 1;
  const text = other ? differenceText(catalog, other, query) : matrixText(catalog, query.format, query);
  printLines(out, text.trimEnd().split("\n"));
  return 0;
}

/** Agents whose every turn would fail in this environment. */
function findKeyless(catalog: Catalog, env: Environment): string[] {
  return createRegistry({ catalog: () => catalog, env, clock: new SystemClock() })
    .unavailable()
    .map(({ agentId, problem }) => `${agentId} cannot answer: ${problem}`);
}
