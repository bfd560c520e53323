import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";

const run = promisify(execFile);

export interface MosquittoOptions {
  /** Further lines of its configuration. Default: everybody may do everything. `FOLDER` stands for its folder. */
  lines?: readonly string[];
  /** Files of its folder, by their names. */
  files?: Readonly<Record<string, string>>;
  /** Options of its clients. */
  clientOptions?: (folder: string) => readonly string[];
}

/** A message as `mosquitto_sub` prints it. */
export interface HeardMessage {
  readonly topic: string;
  readonly payload: string;
  readonly isRetained: boolean;
}

/** A real broker, and its own clients beside it. */
export class Mosquitto {
  readonly port: number;
  readonly folder: string;
  readonly #path: string;
  readonly #clientOptions: readonly string[];
  readonly #listeners: Listener[] = [];
  #process: ChildProcess | undefined;

  private constructor(path: string, port: number, folder: string, clientOptions: readonly string[]) {
    this.#path = path;
    this.port = port;
    this.folder = folder;
    this.#clientOptions = clientOptions;
  }

  /** @param path of the program */
  static async start(path: string, options: MosquittoOptions = {}): Promise<Mosquitto> {
    const { lines = ["allow_anonymous true"], files = {}, clientOptions = () => [] } = options;
    const folder = await mkdtemp(join(tmpdir(), "interlock-mosquitto-"));
    const port = await freePort();
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text, { mode: 0o600 });
    const own = lines.map((line) => line.replaceAll("FOLDER", folder));
    const isRoot = process.getuid?.() === 0;
    const config = [`listener ${port} 127.0.0.1`, "persistence false", ...(isRoot ? ["user root"] : []), ...own, ""];
    await writeFile(join(folder, "mosquitto.conf"), config.join("\n"));
    const broker = new Mosquitto(path, port, folder, clientOptions(folder));
    await broker.begin();
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  /** Start it again, on the same port, without anything that it had. */
  async begin(): Promise<void> {
    const child = spawn(this.#path, ["-c", join(this.folder, "mosquitto.conf")], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    let said = "";
    child.stderr!.on("data", (text) => (said += text));
    while (!(await isListening(this.port))) {
      if (child.exitCode !== null) throw new Error(`mosquitto ended: ${said}`);
      await new Promise((done) => setTimeout(done, 20));
    }
  }

  /** Kill it. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async stop(): Promise<void> {
    for (const listener of this.#listeners) listener.stop();
    await this.kill();
    await rm(this.folder, { recursive: true });
  }

  /** Publish with `mosquitto_pub`, which waits for the broker. `flags`: further ones, as `-r`. */
  async publish(topic: string, payload: string, ...flags: readonly string[]): Promise<void> {
    const message = payload === "" ? ["-n"] : ["-m", payload];
    await run("mosquitto_pub", [...this.clientFlags(), "-q", "1", "-t", topic, ...message, ...flags]);
  }

  /** Publish lines, a message each, over one connection. */
  async publishLines(topic: string, lines: readonly string[]): Promise<void> {
    const child = spawn("mosquitto_pub", [...this.clientFlags(), "-q", "1", "-t", topic, "-l"], {
      stdio: ["pipe", "ignore", "inherit"],
    });
    child.stdin.end(`${lines.join("\n")}\n`);
    await once(child, "exit");
  }

  /** Publish a retained message. */
  retain(topic: string, payload: string): Promise<void> {
    return this.publish(topic, payload, "-r");
  }

  /** Subscribe with `mosquitto_sub`. Resolves when the broker has taken the subscription. */
  async listen(...filters: readonly string[]): Promise<Listener> {
    const listener = new Listener(this.clientFlags(), filters);
    this.#listeners.push(listener);
    // Its own message comes after what the broker keeps.
    while (!listener.isThere) {
      await this.publish(listener.probe, "there");
      await new Promise((done) => setTimeout(done, 10));
    }
    return listener;
  }

  clientFlags(): string[] {
    return ["-h", "127.0.0.1", "-p", String(this.port), ...this.#clientOptions];
  }
}

/** What a subscriber of a broker has received, in order. */
export class Listener {
  readonly probe = `probe/${Math.random().toString(36).slice(2)}`;
  readonly messages: HeardMessage[] = [];
  isThere = false;
  readonly #child: ChildProcess;

  constructor(flags: readonly string[], filters: readonly string[]) {
    const topics = [...filters, this.probe].flatMap((filter) => ["-t", filter]);
    this.#child = spawn("mosquitto_sub", [...flags, "-q", "1", "-F", "%r\t%t\t%p", ...topics], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      const [retained, topic, ...payload] = line.split("\t");
      if (topic === this.probe) this.isThere = true;
      else this.messages.push({ topic: topic!, payload: payload.join("\t"), isRetained: retained === "1" });
    });
  }

  /** The payloads of a topic. */
  of(topic: string): string[] {
    return this.messages.filter((each) => each.topic === topic).map(({ payload }) => payload);
  }

  /** The newest payload of a topic. */
  last(topic: string): string | undefined {
    return this.of(topic).at(-1);
  }

  /** The newest payload of a topic as JSON; undefined if there is none. */
  json(topic: string): unknown {
    const text = this.last(topic);
    return text === undefined || text === "" ? text : JSON.parse(text);
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
