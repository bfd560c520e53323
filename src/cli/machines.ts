import { arbiterMachine } from "../actors/floor/arbiter-machine.ts";
import { chartOf } from "../actors/machine/machine-chart.ts";
import { mermaidOf } from "../actors/machine/mermaid.ts";
import { sessionMachine } from "../actors/session/session-machine.ts";

export const CHART_FORMATS = ["mermaid", "json"] as const;
export type ChartFormat = (typeof CHART_FORMATS)[number];

/** The statecharts of a floor and of a session, read off the machines. */
export function machinesText(format: ChartFormat): string {
  const charts = [arbiterMachine, sessionMachine].map(chartOf);
  if (format === "json") return `${JSON.stringify(charts, undefined, 2)}\n`;
  return charts.map((chart) => `%% ${chart.id}\n${mermaidOf(chart)}`).join("\n");
}
