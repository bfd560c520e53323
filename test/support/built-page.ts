import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { afterAll } from "vitest";

const ROOT = fileURLToPath(new URL("../../page", import.meta.url));

/**
 * The page, built as `npm run build:page` builds it, in a folder that is removed when the test file ends.
 * @param root the folder of another page, to build that one
 */
export async function buildPage(root: string = ROOT): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-page-"));
  afterAll(() => rm(folder, { recursive: true }));
  // The production build of React, whatever the tests' own environment says.
  const mode = process.env["NODE_ENV"];
  process.env["NODE_ENV"] = "production";
  try {
    await build({ root, logLevel: "warn", build: { outDir: folder, emptyOutDir: true } });
  } finally {
    process.env["NODE_ENV"] = mode;
  }
  return folder;
}
