import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { keptFolder, keyOf } from "../runner/kept-folder.ts";

const HERE = fileURLToPath(new URL("../../..", import.meta.url));
const ROOT = join(HERE, "page");

/**
 * The page, built as `npm run build:page` builds it. A build is kept until its sources or the installed packages
 * change.
 * @param root the folder of another page to build
 */
export async function buildPage(root: string = ROOT): Promise<string> {
  return keptFolder("page", [root, ...(await keyOf(root, ROOT, join(HERE, "src")))], async (folder) => {
    // The production build of React, regardless of the tests' environment.
    const mode = process.env["NODE_ENV"];
    process.env["NODE_ENV"] = "production";
    try {
      const { build } = await import("vite");
      await build({ root, logLevel: "warn", build: { outDir: folder, emptyOutDir: true } });
    } finally {
      process.env["NODE_ENV"] = mode;
    }
  });
}
