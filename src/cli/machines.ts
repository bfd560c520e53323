import { arbiterMachine } from "../actors/floor/arbiter-machine.ts";
import { type ChartArrow, type ChartRegion, chartOf, type MachineChart } from "../actors/machine/machine-chart.ts";
import { sessionMachine } from "../actors/session/session-machine.ts";

export type ChartFormat = "mermaid" | "json";

/** The statecharts of a floor and of a session, read off the machines. */
export function machinesText(format: ChartFormat): string {
  const charts = [arbiterMachine, sessionMachine].map(chartOf);
  if (format === "json") return `${JSON.stringify(charts, undefined, 2)}\n`;
  return charts.map((chart) => `%% ${chart.id}\n${mermaidOf(chart)}`).join("\n");
}

/**
 * A machine as a Mermaid state diagram. Arrows between the same two states become one, labelled with all their events.
 */
export function mermaidOf({ id, regions }: MachineChart): string {
  const [only] = regions;
  const bodies = regions.map((region) => bodyOf(region, regions.length > 1 ? `${region.name}_` : ""));
  if (regions.length === 1 && only) return `stateDiagram-v2\n${indent(bodies[0]!, 1)}\n`;
  const parts = regions.map(({ name }, index) => `state ${name} {\n${indent(bodies[index]!, 1)}\n}`);
  return `stateDiagram-v2\n${indent(`state ${id} {\n${indent(parts.join("\n--\n"), 1)}\n}`, 1)}\n`;
}

/** @param prefix distinguishes states of the same name in different regions */
function bodyOf({ initial, states, arrows }: ChartRegion, prefix: string): string {
  const names = prefix === "" ? [] : states.map(({ name }) => `state "${name}" as ${prefix}${name}`);
  const together = Map.groupBy(arrows, ({ from, to }) => `${prefix}${from} --> ${prefix}${to}`);
  const lines = [...together].map(([way, same]) => `${way}${labelOf(same)}`);
  return [...names, `[*] --> ${prefix}${initial}`, ...lines].join("\n");
}

function labelOf(arrows: readonly ChartArrow[]): string {
  // An event with an unguarded arrow is shown without the guards of its other arrows.
  const always = new Set(arrows.filter(({ guard }) => guard === undefined).map(({ event }) => event));
  const shown = arrows.filter(({ event, guard }) => guard === undefined || !always.has(event));
  const words = shown.map(({ event, guard }) => [event, guard && `[${guard}]`].filter(Boolean).join(" "));
  const said = [...new Set(words)].filter((word) => word !== "").join(", ");
  return said === "" ? "" : ` : ${said}`;
}

const indent = (text: string, steps: number): string => text.replace(/^(?=.)/gm, "  ".repeat(steps));
