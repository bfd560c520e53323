import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { EARLY_OPTIMISATION } from "../../../src/cli/early-optimisation.ts";

test("V8 knows the options by which a node's code is optimised early", () => {
  const known = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  for (const option of EARLY_OPTIMISATION) expect(known).toContain(`${option.split("=")[0]} (`);
});
