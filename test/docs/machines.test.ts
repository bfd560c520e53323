import { expect, test } from "vitest";
import { arbiterMachine } from "../../src/actors/floor/arbiter-machine.ts";
import { chartOf } from "../../src/actors/machine/machine-chart.ts";
import { sessionMachine } from "../../src/actors/session/session-machine.ts";
import { mermaidOf } from "../../src/cli/machines.ts";
import { readPage } from "./page.ts";

test("docs/inside/machines.md shows the current machines", () => {
  const shown = readPage("docs/inside/machines.md").blocks.filter(({ text }) => text.startsWith("stateDiagram-v2"));
  const drawn = [arbiterMachine, sessionMachine].map((machine) => mermaidOf(chartOf(machine)));
  expect(shown.map(({ text }) => `${text.trim()}\n`)).toEqual(drawn);
});
