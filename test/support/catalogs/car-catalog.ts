import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { makeCatalog } from "./catalog.ts";

const FILE = parse(readFileSync(new URL("../../../config/car.yaml", import.meta.url), "utf8")) as {
  agents: Record<string, unknown>[];
  restrictions: Record<string, unknown>[];
};
/** The keys that affect arbitration, without those that need a clock or another program. */
const DECIDING = new Set([
  ...["name", "priority", "interruptible", "preemption_threshold", "critical", "when_preempted", "when_blocked"],
  ...["beneath", "replaces", "yields_to", "max_pause"],
]);

/** The agents of config/car.yaml, and its restrictions. */
export const CAR = FILE.agents.map((agent) =>
  Object.fromEntries(Object.entries(agent).filter(([key]) => DECIDING.has(key))),
);
export const RESTRICTIONS = FILE.restrictions;

/** Agents that the cases of docs/use/arbitration.md use in addition to the car's. */
const OTHERS = [
  { name: "plain_music", priority: 20 },
  { name: "plain_phone", priority: 90, interruptible: false },
  { name: "quiet_phone", priority: 90, interruptible: false, when_preempted: "duck" },
  { name: "navigation", priority: 80, interruptible: false },
  { name: "chat", priority: 10 },
];

export const carCatalog = () => makeCatalog([...CAR, ...OTHERS], { restrictions: RESTRICTIONS });
