import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { createChatServer } from "./server.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
/** The program, beside the module of the package: in this repository, and where it is installed. */
const INTERLOCK = fileURLToPath(new URL("interlock.js", import.meta.resolve("interlock")));

/** A chat that runs: its page's address. Disposing it ends the node and the backend, and deletes what they stored. */
export interface RunningChat extends AsyncDisposable {
  url: string;
}

export interface ChatOptions {
  /** The port of the backend. Default: a free one. */
  port?: number;
  /** The file of the agents. */
  catalogue?: string;
}

/** Build the page, start the backend, and then the node, which must know the page's origin. */
export async function startChat({
  port = 0,
  catalogue = join(HERE, "catalogue.yaml"),
}: ChatOptions = {}): Promise<RunningChat> {
  await using opened = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "interlock-chat-"));
  opened.defer(() => rm(folder, { recursive: true, force: true }));
  const pageFolder = join(folder, "page");
  await build({
    root: join(HERE, "page"),
    configFile: join(HERE, "vite.config.ts"),
    logLevel: "warn",
    build: { outDir: pageFolder },
  });

  const nodeSecret = randomBytes(32).toString("base64url");
  let nodeUrl = "";
  const server = createChatServer({
    nodeSecret: new TextEncoder().encode(nodeSecret),
    nodeUrl: () => nodeUrl,
    pageFolder,
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  opened.defer(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const secretFile = join(folder, "secret");
  await writeFile(secretFile, nodeSecret, { mode: 0o600 });
  nodeUrl = await startNode(opened, {
    INTERLOCK_CONFIG: catalogue,
    INTERLOCK_STORE: `sqlite:${join(folder, "chat.db")}`,
    INTERLOCK_AUTH: `jwt:${secretFile}`,
    INTERLOCK_ORIGINS: url,
  });
  const parts = opened.move();
  return { url, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

/** Start a node on a free port. @returns its address */
async function startNode(opened: AsyncDisposableStack, settings: Record<string, string>): Promise<string> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [INTERLOCK, "serve", "--port", "0"], {
    env: { PATH, NODE_COMPILE_CACHE, ...settings },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  opened.defer(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /\bhttp:\/\/\S+/.exec(line)?.[0];
    if (url === undefined) continue;
    child.stdout.resume();
    return url;
  }
  throw new Error("the node did not start: what it printed says why");
}
