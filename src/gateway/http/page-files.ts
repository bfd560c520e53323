import { hash } from "node:crypto";
import { type Dirent, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gunzipSync } from "node:zlib";

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
/** A file that is compressed is not there plain. */
const COMPRESSED = /\.(?:br|gz)$/;

/**
 * Read the built page once, so that request paths never reach the disk.
 * @returns undefined if the page is not built
 * @throws Error of the file system or of zlib if the folder exists and cannot be read
 */
export function readPageFiles(folder: string): PageFiles | undefined {
  const present = new Set(filesIn(folder));
  const read = (path: string) => (present.has(path) ? readFileSync(join(folder, path)) : undefined);
  const paths = new Set([...present].map((path) => path.replace(COMPRESSED, "")));
  if (!paths.has("index.html")) return undefined;
  return new Map(
    [...paths].flatMap((path): [string, PageFile][] => {
      const type = TYPES[path.slice(path.lastIndexOf(".") + 1)];
      if (type === undefined) return [];
      const [br, gzip] = [read(`${path}.br`), read(`${path}.gz`)];
      const bytes = read(path) ?? (gzip && gunzipSync(gzip));
      if (!bytes) return [];
      const compressed = { ...(br && { br }), ...(gzip && { gzip }) };
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
