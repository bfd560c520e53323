import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { keptFolder } from "../runner/kept-folder.ts";

const HERE = fileURLToPath(new URL("../../..", import.meta.url));
const ROOT = join(HERE, "page");
/** The installed packages with their versions. npm writes this file at each install. */
const INSTALLED = join(HERE, "node_modules/.package-lock.json");

/**
 * The page, built as `npm run build:page` builds it. A build is kept until its sources or the installed packages
 * change.
 * @param root the folder of another page to build
 */
export async function buildPage(root: string = ROOT): Promise<string> {
  const sources = await Promise.all([root, ROOT, join(HERE, "src")].map(readSources));
  return keptFolder("page", [root, await readFile(INSTALLED), ...sources.flat()], async (folder) => {
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

/** The path and the text of every file in a folder, in a fixed order. */
async function readSources(folder: string): Promise<(string | Buffer)[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const isSource = (file: string) => !/[\\/](?:node_modules|dist)[\\/]/.test(file.slice(folder.length));
  const sources = files.filter(isSource).sort();
  return (await Promise.all(sources.map(async (file) => [file, await readFile(file)]))).flat();
}
