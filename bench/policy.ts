import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** The commands for a catalogue, from the start of the process to its end, beside how long an operator may wait. */
const ROUNDS = 5;
const AGENTS = 200;
const CHECK_MS = 2_000;
const DAYS = 365;
const SIMULATE_MS = 10_000;

const pathOf = (file: string) => fileURLToPath(new URL(`../${file}`, import.meta.url));

/** The agents of the car again and again, each copy with names and priorities of its own. */
function largeCatalogue(): string {
  const { agents } = parse(readFileSync(pathOf("config/car.yaml"), "utf8")) as { agents: Record<string, unknown>[] };
  const copies = Array.from({ length: AGENTS }, (_, index) => {
    const agent = agents[index % agents.length]!;
    const copy = Math.floor(index / agents.length);
    const renamed = JSON.stringify(agent).replace(/[a-z]+_agent/g, (name) => `${name}_${copy}`);
    return { ...JSON.parse(renamed), priority: Math.max(1, Number(agent["priority"]) - copy) };
  });
  const priority_rules = Array.from({ length: AGENTS / 10 }, (_, index) => ({
    name: `rule ${index}`,
    agents: [`music_agent_${index}`],
    between: "22:00-07:00",
    adjust: -5,
  }));
  return stringify({ agents: copies, priority_rules });
}

/** A commuting day, every day of a year. */
function yearScript(): string {
  const { steps, expect: _, ...head } = parse(readFileSync(pathOf("config/scripts/commuting-day.yaml"), "utf8"));
  return stringify({ ...head, catalogue: pathOf("config/car.yaml"), steps: [{ repeat: DAYS, steps }] });
}

/** @returns the median time of a command, in ms */
function timeOf(args: readonly string[]): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const begun = performance.now();
    const { status, stdout, stderr } = spawnSync(process.execPath, [pathOf("src/cli/main.ts"), ...args], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`interlock ${args.join(" ")} failed:\n${stdout.slice(-2_000)}${stderr}`);
    return performance.now() - begun;
  });
  return median(times);
}

export async function benchPolicy(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
  try {
    const [catalogue, script] = [join(folder, "large.yaml"), join(folder, "year.yaml")];
    writeFileSync(catalogue, largeCatalogue());
    writeFileSync(script, yearScript());
    return [
      {
        what: `check a catalogue of ${AGENTS} agents, beside 2 s`,
        ours: timeOf(["check", catalogue]),
        reference: CHECK_MS,
        unit: "ms",
        atMost: 1,
      },
      {
        what: "simulate a year of one user's days, beside 10 s",
        ours: timeOf(["simulate", script]),
        reference: SIMULATE_MS,
        unit: "ms",
        atMost: 1,
      },
    ];
  } finally {
    rmSync(folder, { recursive: true });
  }
}
