import { arbiterMachine } from "../../src/actors/floor/arbiter-machine.ts";
import { chartOf } from "../../src/actors/machine/machine-chart.ts";
import { sessionMachine } from "../../src/actors/session/session-machine.ts";
import type { Chart } from "../machine/chart.ts";
import { drawRegion } from "./layout.ts";

/** The arbiter's chart and the session's, in this order. */
export async function drawCharts(): Promise<Chart[]> {
  return Promise.all(
    [arbiterMachine, sessionMachine].map(async (machine) => {
      const { id, anywhere, regions } = chartOf(machine);
      return { id, anywhere, regions: await Promise.all(regions.map(drawRegion)) };
    }),
  );
}

if (import.meta.main) process.stdout.write(JSON.stringify(await drawCharts()));
