import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { BARE_ENV } from "../support/agents/bare-env.ts";

const MAIN = join(import.meta.dirname, "../../bench/main.ts");

test("the benches load outside of tests, and a name that is none of theirs is refused", async () => {
  const run = promisify(execFile)(process.execPath, [MAIN, "routing", "rooting"], { env: BARE_ENV });
  await expect(run).rejects.toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("no bench: rooting"),
  });
});
