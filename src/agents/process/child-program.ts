import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import { within } from "../../shared/waiting.ts";
import { limitCommand } from "./marker.ts";
import { findMarked, killMarked, type ProcessName } from "./process-sweep.ts";
import type { SystemUser } from "./program.ts";

/**
 * What a program has written is read within this time after its exit, in ms, and is no more than a pipe holds, in
 * bytes. A process that removed its marks and lost its parent may keep the pipe open forever.
 */
const OUTPUT_MS = 1_000;
const MAX_PIPE_BYTES = 1_048_576;

/** A program to start, without a shell. */
export interface ProgramStart {
  /** The path of the executable file. */
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Its whole environment, without the mark. */
  readonly env: Readonly<Record<string, string>>;
  /** The user as which it runs; absent: the worker's. */
  readonly user?: SystemUser | undefined;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly durationMs: number;
}

export interface Graces {
  /** The delay between the end of its input and SIGTERM, in ms. */
  readonly inputMs: number;
  /** The delay between SIGTERM and SIGKILL, in ms. */
  readonly termMs: number;
}

interface ProgramOptions {
  /** The mark in its environment. */
  readonly mark: string;
  /** The mark as its limit; undefined where it cannot be set. */
  readonly number: string | undefined;
  readonly environment: Readonly<Record<string, string>>;
  readonly graces: Graces;
  readonly clock: Clock;
  readonly log?: Logger | undefined;
}

/** A started program, with all processes that it starts. */
export class ChildProgram {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #options: Readonly<ProgramOptions>;
  /** Resolves when the program runs; rejects if it cannot be started. */
  readonly started: Promise<void>;
  /** Resolves when the program has exited. Its output may still have unread data. */
  readonly exited: Promise<Exit>;
  /** Resolves when the program and all processes that it started have ended. */
  readonly ended: Promise<Exit>;
  #ending: Promise<Exit> | undefined;
  /** Processes of the program that were seen while it ran, by pid. */
  readonly #seen = new Map<number, ProcessName>();
  /** The timers of outputs that outlast the program. */
  readonly #looks = new Map<Readable, Timer>();

  constructor(program: ProgramStart, options: ProgramOptions) {
    const { clock, number } = options;
    this.#options = options;
    const begunAt = clock.now();
    const command = [...(number === undefined ? [] : limitCommand(number)), program.file, ...program.args];
    this.#child = spawn(command[0]!, command.slice(1), {
      cwd: program.cwd,
      env: options.environment,
      ...program.user,
      // The leader of a process group, so that a signal reaches all processes in the group.
      detached: true,
      shell: false,
      windowsHide: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    const { promise, resolve } = Promise.withResolvers<Exit>();
    this.exited = promise;
    this.started = new Promise((started, fail) => {
      this.#child.once("spawn", started);
      this.#child.once("error", (error: NodeJS.ErrnoException) => {
        fail(new Error(`the program cannot be started: ${error.code ?? "unknown reason"}`));
        // A process without a pid has no exit event.
        if (this.#child.pid === undefined) resolve({ code: null, signal: null, durationMs: 0 });
      });
    });
    this.started.catch(() => {});
    this.#child.once("exit", (code, signal) => resolve({ code, signal, durationMs: clock.now() - begunAt }));
    for (const stream of [this.stdin, this.stdout, this.stderr]) stream.on("error", () => {});
    for (const stream of [this.stdout, this.stderr]) stream.once("close", () => this.#looks.get(stream)?.cancel());
    this.ended = this.exited.then(async (exit) => {
      await this.#sweep();
      for (const stream of [this.stdout, this.stderr]) this.#endOutput(stream);
      return exit;
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** A program may end without reading: errors of this stream are ignored. */
  get stdin(): Writable {
    return this.#child.stdin;
  }

  get stdout(): Readable {
    return this.#child.stdout;
  }

  get stderr(): Readable {
    return this.#child.stderr;
  }

  /**
   * Remember its processes, so that they are also ended if they have cleared their environment and lose their parent.
   * To be called before it is asked to stop.
   */
  async noteProcesses(): Promise<void> {
    for (const found of await findMarked(this.#options.mark)) this.#seen.set(found.pid, found);
  }

  /**
   * End its input, then send SIGTERM and later SIGKILL to its group, then kill the remaining processes outside the
   * group.
   *
   * @param inputMs how long it may take to end after the end of its input. Only the first call's value counts
   */
  async end(inputMs = this.#options.graces.inputMs): Promise<Exit> {
    this.#ending ??= this.#end(inputMs);
    return await this.#ending;
  }

  /** Kill it without waiting. */
  async kill(): Promise<Exit> {
    this.#signal("SIGKILL");
    return await this.#close();
  }

  async #end(inputMs: number): Promise<Exit> {
    const { termMs } = this.#options.graces;
    if (this.#isRunning) await this.noteProcesses();
    // Discard its output, because a full pipe would keep it from ending.
    this.stdout.resume();
    this.stderr.resume();
    this.stdin.end();
    if (!(await this.#exitsWithin(inputMs))) this.#signal("SIGTERM");
    if (!(await this.#exitsWithin(termMs))) this.#signal("SIGKILL");
    return await this.#close();
  }

  /**
   * End the output of a program that has exited, behind what it has written, if another process holds the pipe.
   * @param before the bytes that were read one look earlier
   * @param rest the bytes that were read since the exit
   */
  #endOutput(stream: Readable, before?: number, rest = 0): void {
    if (stream.readableEnded || stream.destroyed) return;
    const { bytesRead } = stream as Socket;
    const more = bytesRead - (before ?? bytesRead);
    // While the run is held its buffer is full, and the pipe behind it is not read.
    const isWhole = before !== undefined && more === 0 && stream.readableLength < stream.readableHighWaterMark;
    if (isWhole || rest + more > MAX_PIPE_BYTES) return void stream.push(null);
    const look = () => this.#endOutput(stream, bytesRead, rest + more);
    this.#looks.set(stream, this.#options.clock.after(OUTPUT_MS, look));
  }

  async #close(): Promise<Exit> {
    const exit = await this.ended;
    this.stdout.destroy();
    this.stderr.destroy();
    return exit;
  }

  async #exitsWithin(delayMs: number): Promise<boolean> {
    const exits = this.exited.then(() => true);
    return await within(this.#options.clock, delayMs, exits, () => false);
  }

  get #isRunning(): boolean {
    const { pid, exitCode, signalCode } = this.#child;
    return pid !== undefined && exitCode === null && signalCode === null;
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid === undefined || !this.#isRunning) return;
    try {
      process.kill(-pid, signal);
    } catch {
      this.#child.kill(signal);
    }
  }

  async #sweep(): Promise<void> {
    const { mark, number, log } = this.#options;
    const { killed, left } = await killMarked([mark, number ?? []].flat(), [...this.#seen.values()]);
    if (killed > 0) log?.info({ killed }, "a program left processes behind; they were killed");
    if (left > 0) log?.error({ left }, "processes of a program cannot be killed");
  }
}
