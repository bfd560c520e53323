import { type RouteQuestion, route } from "../routing/route.ts";
import { type Output, printLines } from "./printed-lines.ts";
import { catalogOrCode } from "./read-catalog.ts";

/**
 * `interlock route SENTENCE [file]`: which agent hears a sentence, by a catalogue alone. What only a floor or a router
 * agent knows is told beside it.
 *
 * @returns the exit code: 0; 1 for a catalogue with faults; 2 if it cannot be read
 */
export async function routeSentence(sentence: string, path: string, out: Output, asJson: boolean): Promise<number> {
  const catalog = await catalogOrCode(path, (line) => printLines(out, [line]));
  if (typeof catalog === "number") return catalog;
  const open: RouteQuestion[] = [];
  const steps = route(catalog, sentence, { isOperator: true });
  let step = steps.next();
  while (!step.done) {
    open.push(step.value);
    step = steps.next(step.value.kind === "ask" ? { why: "late" } : undefined);
  }
  const { agent, by, row, alternatives, groups } = step.value.routed;
  const before = open.map((each) => ({ row: catalog.routing.rows.indexOf(each) + 1, ...describe(each) }));
  if (asJson) {
    printLines(out, [JSON.stringify({ agent, by, row, alternatives, groups, before: before.map((each) => each.row) })]);
    return 0;
  }
  printLines(out, [
    `${agent ?? "nobody"} hears it: ${row === undefined ? "no row of routing fits, and it is the default agent" : `row ${row} of routing (${by})`}`,
    ...Object.entries(groups ?? {}).map(([name, value]) => `  ${name}: ${value}`),
    ...(alternatives.length > 0 ? [`would fit too: ${alternatives.join(", ")}`] : []),
    ...before.map((each) => `before it, row ${each.row}: ${each.text}`),
  ]);
  return 0;
}

/** What decides a row that the catalogue alone does not. */
function describe(row: RouteQuestion): { text: string } {
  if (row.kind === "ask") return { text: `${row.agent} is asked, and may name ${row.among.join(", ")}` };
  return { text: `a session that was spoken to, or asked, within ${row.withinMs / 1_000} s goes on` };
}
