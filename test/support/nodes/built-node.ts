import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Plugin } from "vite";
import type { TestProject } from "vitest/node";
import { keptFolder, keyOf } from "../runner/kept-folder.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const SOURCES = join(ROOT, "src/");
/** The command line, and what a node starts as a thread or a process. */
const ENTRIES = [join(SOURCES, "cli/main.ts"), ...globSync(`${SOURCES}**/*-main.ts`)];
/** Peers, which a user may not have installed. */
const PEERS = Object.keys(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).peerDependencies);

declare module "vitest" {
  interface ProvidedContext {
    /** The command line with its libraries in a few modules; undefined: nodes start from their sources. */
    builtCli: string | undefined;
  }
}

/**
 * Builds `src` with its libraries for the processes that tests start: 150 modules instead of 900, of which a node loads
 * 30, in two thirds of the CPU time. Stack traces have the names of functions, and lines of the built modules;
 * `TEST_SOURCES=true` starts nodes from their sources instead.
 */
export async function setup(project: TestProject): Promise<void> {
  if (process.env["TEST_SOURCES"] === "true") return;
  const provide = async () => project.provide("builtCli", join(await buildNode(), "main.js"));
  await provide();
  project.onTestsRerun(provide);
}

async function buildNode(): Promise<string> {
  return keptFolder(
    "node",
    [...(await keyOf(SOURCES)), readFileSync(fileURLToPath(import.meta.url))],
    async (folder) => {
      const { build } = await import("vite");
      await build({
        root: ROOT,
        configFile: false,
        logLevel: "warn",
        plugins: [inPlace()],
        ssr: { noExternal: true, external: PEERS },
        build: {
          ssr: true,
          outDir: folder,
          copyPublicDir: false,
          minify: false,
          target: "node24",
          rolldownOptions: {
            input: Object.fromEntries(ENTRIES.map((path) => [basename(path, ".ts"), path])),
            output: { entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" },
          },
        },
      });
    },
  );
}

/** A built module finds files beside the sources where they are, and threads and processes beside itself. */
function inPlace(): Plugin {
  const entry =
    /new URL\(\s*import\.meta\.url\.endsWith\("\.ts"\) \? "\.\/([\w-]+)\.ts" : "[^"]+",\s*import\.meta\.url,?\s*\)/;
  return {
    name: "in-place",
    enforce: "pre",
    transform(code, id) {
      if (!id.startsWith(SOURCES) || !code.includes("import.meta.url")) return undefined;
      const name = entry.exec(code)?.[1];
      if (name !== undefined) return code.replace(entry, `new URL("./${name}.js", import.meta.url)`);
      return code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href));
    },
  };
}
