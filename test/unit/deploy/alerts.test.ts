import { expect, test } from "vitest";
import { readPage } from "../../docs/page.ts";
import { documentsOf } from "../../support/documents/deployment.ts";
import { stillMetrics } from "../../support/nodes/still-metrics.ts";

interface Rules {
  groups: { rules: { alert: string; expr: string; annotations: { summary: string } }[] }[];
}

const { groups } = documentsOf("alerts.yaml")[0] as Rules;
const rules = groups.flatMap((group) => group.rules);

test("every alert queries metrics that a node has from its start, with labels that they have", async () => {
  const metrics = stillMetrics();
  metrics.command("session.chat", "unavailable");
  const { text } = await metrics.read();
  expect(rules.length).toBeGreaterThan(5);
  for (const { alert, expr } of rules) {
    const names = expr.match(/\b(interlock|nodejs|process)_\w+/g)!;
    for (const name of names) expect(text, alert).toMatch(new RegExp(`^${name}[{ ]`, "m"));
    for (const [, name, label] of expr.matchAll(/(\w+)\{(\w+)=/g)) {
      expect(text, alert).toMatch(new RegExp(`^${name}\\{.*${label}=`, "m"));
    }
  }
});

test("docs/operate/operations.md says of every alert what it means and what to do", () => {
  const { text } = readPage("docs/operate/operations.md");
  const [, section] = /^### What an alert means$(.*?)^(?:#|An alert)/ms.exec(text)!;
  const rows = section!.split("\n").filter((line) => line.startsWith("| `"));
  const cells = rows.map((row) => row.split("|").map((cell) => cell.trim()));
  expect(cells.map(([, alert]) => alert)).toEqual(rules.map(({ alert }) => `\`${alert}\``));
  for (const [, alert, meaning, remedy] of cells) {
    expect(meaning!.length, alert).toBeGreaterThan(20);
    expect(remedy!.length, alert).toBeGreaterThan(20);
  }
});
