import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** Smaller files are not compressed. */
const MIN_BYTES = 512;

/**
 * Replaces each file by its `.br` and its `.gz`, so that the server compresses nothing and the package has no content
 * a third time. It reads the written files, because Vite replaces parts of the bundle after all other plugins.
 */
export function compressed(): Plugin {
  return {
    name: "interlock-compressed",
    apply: "build",
    writeBundle({ dir }, bundle) {
      if (dir === undefined) throw new Error("the page is written to a folder");
      for (const name of Object.keys(bundle)) {
        if (!/\.(?:html|js|css|svg|json)$/.test(name)) continue;
        const path = join(dir, name);
        const bytes = readFileSync(path);
        if (bytes.length < MIN_BYTES) continue;
        const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
        writeFileSync(`${path}.br`, brotliCompressSync(bytes, quality));
        writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
        rmSync(path);
      }
    },
  };
}
