import { fileURLToPath } from "node:url";
import { build } from "vite";
import { OLDEST_BROWSERS } from "../../../page/vite.config.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** An entry of the package with its dependencies except React, as one minified module for browsers. */
export async function bundleForBrowsers(entry: "client/interlock-client" | "react/react"): Promise<string> {
  const built = await build({
    root: ROOT,
    configFile: false,
    logLevel: "warn",
    build: {
      write: false,
      target: OLDEST_BROWSERS,
      minify: true,
      lib: { entry: `${ROOT}/src/${entry}.ts`, formats: ["es"], fileName: "client" },
      rolldownOptions: { external: ["react"] },
    },
  });
  const chunks = [built].flat().flatMap((each) => ("output" in each ? each.output : []));
  const [chunk] = chunks;
  if (chunk?.type !== "chunk" || chunks.length !== 1) throw new Error("the entry is not one module");
  return chunk.code;
}
