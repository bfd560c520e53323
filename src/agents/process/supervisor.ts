import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import { ChildProgram, type Graces, type ProgramStart } from "./child-program.ts";
import { MARKER, ownerName, ProgramNumbers } from "./marker.ts";
import { killMarked } from "./process-sweep.ts";

const WATCHDOG = new URL(
  import.meta.url.endsWith(".ts") ? "./watchdog-main.ts" : "./watchdog-main.js",
  import.meta.url,
);
/** How long a program may take to end, in ms: after the end of its input, and after SIGTERM. Then it is killed. */
const GRACES: Graces = { inputMs: 3_000, termMs: 5_000 };

export interface SupervisorOptions {
  readonly clock: Clock;
  readonly log?: Logger | undefined;
  readonly graces?: Graces;
}

/**
 * Starts programs, and ensures that none of their processes outlives its run or this worker: ADR 16. The guarantee
 * needs Linux's /proc; elsewhere only a program's process group is ended.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  /** The prefix of all marks of this supervisor. */
  readonly #owner = `${ownerName()}.${randomBytes(6).toString("base64url")}`;
  readonly #numbers = new ProgramNumbers();
  readonly #running = new Set<ChildProgram>();
  #watchdog: Promise<ChildProcess> | undefined;
  #started = 0;
  #isClosed = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** @throws Error if the program cannot be started; its message contains no argument and no value */
  async start(program: ProgramStart): Promise<ChildProgram> {
    // Also before: nothing would end the watchdog of a supervisor that was closed.
    this.#mustBeOpen();
    await this.#watch();
    const number = await this.#numbers.next();
    if (number !== undefined) await mustBeExecutable(program.file);
    this.#mustBeOpen();
    this.#started += 1;
    // The point at the end ensures that no mark is a prefix of another.
    const mark = `${this.#owner}.${this.#started}.`;
    const above = process.env[MARKER];
    const child = new ChildProgram(program, {
      mark,
      number,
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

  /** Kill all running programs. No program can be started afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#started > 0) await killMarked([this.#owner, this.#numbers.prefix]);
    await Promise.all([...this.#running].map((child) => child.kill()));
    const watchdog = await this.#watchdog?.catch(() => undefined);
    if (!watchdog || watchdog.exitCode !== null || watchdog.signalCode !== null) return;
    const gone = once(watchdog, "exit");
    watchdog.stdin?.end();
    await gone;
  }

  #mustBeOpen(): void {
    if (this.#isClosed) throw new Error("the worker is shutting down");
  }

  /** Ensure that the watchdog runs before a program starts, and restart it if it was killed. */
  async #watch(): Promise<void> {
    this.#watchdog ??= this.#startWatchdog();
    try {
      await this.#watchdog;
    } catch (error) {
      this.#watchdog = undefined;
      throw new Error("the watchdog of programs cannot be started", { cause: error });
    }
  }

  async #startWatchdog(): Promise<ChildProcess> {
    // Started in its own session, so that a signal to the worker's group does not reach it, and without the worker's
    // secrets. It finds its code compiled where the worker does.
    const prefixes = [this.#owner, this.#numbers.prefix];
    const watchdog = spawn(process.execPath, ["--no-warnings", fileURLToPath(WATCHDOG), ...prefixes], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
      env: { NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] },
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

/** The program that sets the limit starts in any case, so the file is tested before. */
async function mustBeExecutable(file: string): Promise<void> {
  try {
    await access(file, constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`the program cannot be started: ${code ?? "unknown reason"}`, { cause: error });
  }
}
