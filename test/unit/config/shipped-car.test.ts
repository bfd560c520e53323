import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { checkCatalog } from "../../../src/cli/check/check.ts";
import { loadCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { CAR, RESTRICTIONS } from "../../support/catalogs/car-catalog.ts";

const PATH = fileURLToPath(new URL("../../../config/car.yaml", import.meta.url));
const FILE = parse(readFileSync(PATH, "utf8"));

test("the shipped car has no faults and no warnings", async () => {
  let printed = "";
  expect(await checkCatalog(PATH, { write: (text) => (printed += text) }, {})).toBe(0);
  expect(printed).toMatch(/^\S+car\.yaml: 8 agents, no faults, hash \w{12}\n$/);
});

test("the shipped car decides as the car of the tests does: the cases of docs/use/arbitration.md apply to it", () => {
  const decides = [
    ...["name", "priority", "interruptible", "preemption_threshold", "critical", "when_preempted", "when_blocked"],
    ...["beneath", "replaces", "yields_to", "max_pause"],
  ];
  const keysOf = (agents: readonly Record<string, unknown>[]) =>
    agents.map((agent) => {
      const { beneath, ...keys } = Object.fromEntries(Object.entries(agent).filter(([key]) => decides.includes(key)));
      // `all: pause` says what an empty `beneath` does.
      const isNobody = JSON.stringify(beneath) === '{"all":"pause"}';
      return { ...keys, ...(beneath !== undefined && !isNobody && { beneath }) };
    });
  expect(keysOf(FILE.agents)).toEqual(keysOf(CAR));
  const restrictions = FILE.restrictions.map(({ others, ...rest }: { others: string }) =>
    others === "pause" ? rest : { ...rest, others },
  );
  expect(restrictions).toEqual(RESTRICTIONS);
});

test("the shipped car gives every program a lease, and every session that takes the floor itself a limit", async () => {
  const reading = await loadCatalog(PATH);
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  const agents = [...reading.catalog.agents.values()];
  const external = agents.filter(({ adapter }) => adapter.kind === "external");
  expect(external.filter(({ leaseMs }) => leaseMs === undefined)).toEqual([]);
  expect(agents.filter(({ maxHoldMs }) => maxHoldMs !== undefined).map(({ id }) => id)).toEqual([
    "chime_agent",
    "listen_agent",
    "prompt_agent",
  ]);
  expect(reading.catalog.defaultAgentId).toBe("dialog_agent");
});
