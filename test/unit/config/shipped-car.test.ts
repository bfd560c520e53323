import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { checkCatalog } from "../../../src/cli/check/check.ts";
import type { AgentEntry } from "../../../src/config/catalog/catalog.ts";
import { catalogOf } from "../../support/catalogs/catalog-faults.ts";

const PATH = fileURLToPath(new URL("../../../config/car.yaml", import.meta.url));

test("the shipped car has no faults and no warnings", async () => {
  let printed = "";
  expect(await checkCatalog(PATH, { write: (text) => (printed += text) }, {})).toBe(0);
  expect(printed).toMatch(/^\S+car\.yaml: 8 agents, no faults, hash \w{12}\n$/);
});

test("the shipped car gives every program a lease, and every session that takes the floor itself a limit", () => {
  const catalog = catalogOf(readFileSync(PATH, "utf8"));
  const agents = [...catalog.agents.values()];
  const named = (isMeant: (agent: AgentEntry) => boolean) => agents.filter(isMeant).map(({ id }) => id);
  expect(named(({ adapter, leaseMs }) => adapter.kind === "external" && leaseMs === undefined)).toEqual([]);
  expect(named(({ maxHoldMs }) => maxHoldMs !== undefined)).toEqual(["chime_agent", "listen_agent", "prompt_agent"]);
  expect(named(({ maxPauseMs }) => maxPauseMs === 0)).toEqual(["listen_agent", "prompt_agent"]);
  expect(named(({ interruptible }) => !interruptible)).toEqual(["ecall_agent", "phone_agent", "prompt_agent"]);
  expect(catalog.defaultAgentId).toBe("dialog_agent");
  expect(catalog.restrictions.map(({ name, allow }) => [name, [...allow]])).toEqual([
    ["reverse", ["phone_agent", "prompt_agent"]],
    ["locked", []],
  ]);
});
