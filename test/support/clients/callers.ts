import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { OutgoingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Answer, NodeUnderTest, RequestOptions } from "../nodes/node-under-test.ts";
import type { SseReader } from "./sse-reader.ts";

/** A caller with a token or a key, at a node that requires one. */
export class Caller {
  readonly node: NodeUnderTest;
  readonly token: string;

  constructor(node: NodeUnderTest, token: string) {
    this.node = node;
    this.token = token;
  }

  get headers(): { Authorization: string } {
    return { Authorization: `Bearer ${this.token}` };
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.node.get(path, this.#with(options));
  }

  post(path: string, body?: unknown, options?: RequestOptions): Promise<Answer> {
    return this.node.post(path, body, this.#with(options));
  }

  ask(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer> {
    const whole = this.#with(options);
    switch (method) {
      case "GET":
        return this.node.get(path, whole);
      case "POST":
        return this.node.post(path, body, whole);
      case "PUT":
        return this.node.put(path, body, whole);
      case "PATCH":
        return this.node.patch(path, body, whole);
      default:
        return this.node.delete(path, whole);
    }
  }

  stream(path: string, headers: Record<string, string> = {}): Promise<SseReader> {
    return this.node.stream(path, { ...this.headers, ...headers });
  }

  #with(options: RequestOptions = {}): RequestOptions {
    const headers: OutgoingHttpHeaders = { ...this.headers, ...options.headers };
    return { ...options, headers };
  }
}

/** A file that is deleted at the end of the test file, or of the given scope. */
export async function writeTemporary(
  name: string,
  content: string | Uint8Array,
  atEnd: (remove: () => Promise<void>) => void,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-auth-"));
  atEnd(() => rm(folder, { recursive: true }));
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

/** The content of a keys file (`keys:<file>`), from keys by owner. */
export function keysFile(entries: { owner: string; key: string; operator?: boolean }[]): string {
  const keys = entries.map(({ owner, key, operator = false }) => ({
    owner,
    operator,
    sha256: createHash("sha256").update(key).digest("hex"),
  }));
  return JSON.stringify({ keys });
}
