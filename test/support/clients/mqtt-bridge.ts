import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { BARE_ENV } from "../agents/bare-env.ts";
import { CLI } from "../nodes/cli.ts";
import { makeFolder } from "../stores/sqlite-place.ts";

export interface BridgeStart {
  /** The text of its file. */
  text: string;
  /** The node's address. */
  url: string;
  /** Node's own flags. */
  flags?: readonly string[];
}

type AtEnd = (end: () => Promise<void>) => void;

/** `interlock mqtt` in a process of its own, with what it keeps in a folder that outlives it. */
export class MqttBridge {
  readonly folder: string;
  readonly lines: string[] = [];
  errors = "";
  code: number | null | undefined;
  #process: ChildProcess | undefined;
  readonly #start: BridgeStart;

  private constructor(start: BridgeStart, folder: string) {
    this.#start = start;
    this.folder = folder;
  }

  /**
   * Start a bridge. It is at its work when it says that the broker is there.
   * @param atEnd is given what ends it and removes its folder
   */
  static async start(start: BridgeStart, atEnd: AtEnd = onTestFinished): Promise<MqttBridge> {
    const { folder, remove } = await makeFolder();
    const bridge = new MqttBridge(start, folder);
    atEnd(async () => {
      await bridge.kill();
      await remove();
    });
    await bridge.begin();
    return bridge;
  }

  /** Start it again, after it was killed. */
  async begin(): Promise<void> {
    const { text, url, flags = [] } = this.#start;
    const path = join(this.folder, "mqtt.yaml");
    await writeFile(path, text);
    const child = spawn(process.execPath, [...flags, CLI, "mqtt", path, "--url", url], {
      env: { ...BARE_ENV, HOME: this.folder, XDG_STATE_HOME: this.folder },
      cwd: this.folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    this.code = undefined;
    createInterface({ input: child.stdout! }).on("line", (line) => this.lines.push(line));
    child.stderr!.on("data", (part) => (this.errors += part));
    child.on("exit", (code) => (this.code = code));
  }

  /** What it has said so far, as one text. */
  get said(): string {
    return `${this.lines.join("\n")}\n${this.errors}`;
  }

  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** End it as a signal of the system does. @returns its exit code */
  async stop(): Promise<number | null> {
    await this.#end("SIGTERM");
    return this.code ?? null;
  }

  /** Resolves when it has ended by itself. */
  async ended(): Promise<number | null> {
    const child = this.#process!;
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    return child.exitCode;
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await once(child, "exit");
  }
}
