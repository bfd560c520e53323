import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import type { OutgoingHttpHeaders } from "node:http";
import { join } from "node:path";
import { afterAll, expect } from "vitest";
import { type Answer, type NodeOptions, NodeUnderTest, type RequestOptions } from "../nodes/node-under-test.ts";
import { makeFolder } from "../stores/sqlite-place.ts";
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
    const verb = method.toLowerCase() as "get" | "post" | "put" | "patch" | "delete";
    return verb === "get" || verb === "delete" ? this.node[verb](path, whole) : this.node[verb](path, body, whole);
  }

  /** A new ticket of this caller, and when it expires. */
  async ticket(): Promise<{ ticket: string; expiresAt: number }> {
    const { status, text } = await this.post("/ticket");
    expect(status, text).toBe(200);
    return JSON.parse(text);
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
  const { folder } = await makeFolder(atEnd);
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

type AtEnd = (close: () => Promise<void>) => void;

export const keyOf = (owner: string) => `${owner}-key-0123456789abcdef0123456789`;

/** A keys file of these owners with `keyOf` each. `ops` is an operator. */
export function keysFor(owners: readonly string[], atEnd: AtEnd): Promise<string> {
  const entries = owners.map((owner) => ({ owner, key: keyOf(owner), operator: owner === "ops" }));
  return writeTemporary("keys.yaml", keysFile(entries), atEnd);
}

/** A node that knows the keys of Ann, Bob and an operator, and these callers; without limits by default. */
export async function startGuarded({ settings, ...options }: NodeOptions = {}, atEnd: AtEnd = afterAll) {
  const keys = await keysFor(["ann", "bob", "ops"], atEnd);
  const own = { INTERLOCK_AUTH: `keys:${keys}`, INTERLOCK_RATE_LIMITS: "off" };
  const node = await NodeUnderTest.start({ ...options, settings: { ...own, ...settings } });
  atEnd(() => node.stop());
  const caller = (owner: string) => new Caller(node, keyOf(owner));
  return { node, ann: caller("ann"), bob: caller("bob"), ops: caller("ops") };
}
