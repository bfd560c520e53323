import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../protocol/ports/clock.ts";
import type { Logger } from "../../protocol/ports/logger.ts";
import { ChildProgram, type Graces, type ProgramStart } from "./child-program.ts";
import { MARKER, ownerName } from "./marker.ts";
import { killMarked } from "./process-sweep.ts";

const WATCHDOG = new URL(
  import.meta.url.endsWith(".ts") ? "./watchdog-main.ts" : "./watchdog-main.js",
  import.meta.url,
);
/** What a program gets to end by itself, in ms: after its input ended, and after SIGTERM. Then it is killed. */
const GRACES: Graces = { inputMs: 3_000, termMs: 5_000 };

export interface SupervisorOptions {
  readonly clock: Clock;
  readonly log?: Logger | undefined;
  readonly graces?: Graces;
}

/**
 * Starts programs, and sees to it that none of their processes outlives its run or this worker: ADR 16. The guarantee
 * needs Linux's /proc; elsewhere only a program's process group is ended.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  /** All marks of this supervisor begin so. */
  readonly #owner = `${ownerName()}.${randomBytes(6).toString("base64url")}`;
  readonly #running = new Set<ChildProgram>();
  #watchdog: Promise<ChildProcess> | undefined;
  #started = 0;
  #isClosed = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** @throws Error when the program cannot be started; its message names no argument and no value */
  async start(program: ProgramStart): Promise<ChildProgram> {
    await this.#watch();
    if (this.#isClosed) throw new Error("the worker is shutting down");
    this.#started += 1;
    // With a point at the end: one mark is never the beginning of another.
    const mark = `${this.#owner}.${this.#started}.`;
    const above = process.env[MARKER];
    const child = new ChildProgram(program, {
      mark,
      environment: { ...program.env, [MARKER]: above ? `${above} ${mark}` : mark },
      graces: this.#options.graces ?? GRACES,
      clock: this.#options.clock,
      log: this.#options.log,
    });
    this.#running.add(child);
    void child.ended.then(() => this.#running.delete(child));
    await child.started;
    return child;
  }

  /** Kill what still runs. Programs cannot be started afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#started > 0) await killMarked(this.#owner);
    await Promise.all([...this.#running].map((child) => child.kill()));
    const watchdog = await this.#watchdog?.catch(() => undefined);
    if (!watchdog || watchdog.exitCode !== null || watchdog.signalCode !== null) return;
    const gone = once(watchdog, "exit");
    watchdog.stdin?.end();
    await gone;
  }

  /** The watchdog is there before the first program, and again when it was killed. */
  async #watch(): Promise<void> {
    this.#watchdog ??= this.#startWatchdog();
    try {
      await this.#watchdog;
    } catch (error) {
      this.#watchdog = undefined;
      throw new Error("the watchdog over programs cannot be started", { cause: error });
    }
  }

  async #startWatchdog(): Promise<ChildProcess> {
    // A session of its own, so that a signal to the worker's group does not reach it, and none of the worker's secrets.
    const watchdog = spawn(process.execPath, ["--no-warnings", fileURLToPath(WATCHDOG), this.#owner], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
      env: {},
      cwd: "/",
    });
    watchdog.stdin.on("error", () => {});
    await once(watchdog, "spawn");
    watchdog.unref();
    (watchdog.stdin as unknown as { unref(): void }).unref();
    watchdog.on("exit", () => {
      this.#watchdog = undefined;
      if (!this.#isClosed && this.#running.size > 0) void this.#watch().catch(() => {});
    });
    return watchdog;
  }
}
