import { hash } from "node:crypto";
import { type Dirent, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** A file of the page, ready to be sent. */
export interface PageFile {
  type: string;
  bytes: Buffer;
  /** The same content, compressed when the page was built. */
  compressed: { br?: Buffer; gzip?: Buffer };
  etag: string;
}

/** Files by their path below the page's folder: `index.html` or `assets/…`. */
export type PageFiles = ReadonlyMap<string, PageFile>;

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  json: "application/json; charset=utf-8",
};
const ENCODINGS = { br: ".br", gzip: ".gz" } as const;

/**
 * Read the built page once, so that request paths never reach the disk.
 * @returns undefined if the page is not built
 * @throws Error of the file system if the folder exists and cannot be read
 */
export function readPageFiles(folder: string): PageFiles | undefined {
  const paths = filesIn(folder);
  if (!paths.includes("index.html")) return undefined;
  const known = new Set(paths);
  return new Map(
    paths.flatMap((path): [string, PageFile][] => {
      const type = TYPES[path.slice(path.lastIndexOf(".") + 1)];
      if (type === undefined) return [];
      const bytes = readFileSync(join(folder, path));
      const compressed: PageFile["compressed"] = {};
      for (const [encoding, ending] of Object.entries(ENCODINGS) as ["br" | "gzip", string][]) {
        if (known.has(path + ending)) compressed[encoding] = readFileSync(join(folder, path + ending));
      }
      return [[path, { type, bytes, compressed, etag: `"${hash("sha256", bytes, "base64url").slice(0, 22)}"` }]];
    }),
  );
}

function filesIn(folder: string): string[] {
  try {
    const entries: Dirent[] = readdirSync(folder, { recursive: true, withFileTypes: true });
    return entries.filter((each) => each.isFile()).map((each) => relative(folder, join(each.parentPath, each.name)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
