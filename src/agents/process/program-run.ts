import { AppError } from "../../protocol/errors.ts";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import { cutText } from "../../shared/text.ts";
import type { Part, RunControl, Turn } from "../agent.ts";
import type { Semaphore } from "../semaphore.ts";
import { BoundedQueue } from "./bounded-queue.ts";
import type { ChildProgram, Exit } from "./child-program.ts";
import { type Line, readLines } from "./line-reader.ts";
import { createRedactor, type Environment, environmentOf, locateProgram, type ProgramEntry } from "./program.ts";
import { RedactedParts } from "./redacted-parts.ts";
import type { Redactor } from "./redactor.ts";
import type { Supervisor } from "./supervisor.ts";

/** Output that may wait to be pulled, in UTF-16 units. Beyond it, the program's output is not read. */
const MAX_WAITING_UNITS = 1_048_576;
/** The longest line of a log, in UTF-16 units. A longer one is logged in pieces. */
const MAX_LOG_LINE_UNITS = 4_096;

/**
 * What a program may print, on both outputs, without a part of a reply, in UTF-16 units. A program that prints more
 * would keep its run busy without end.
 */
const MAX_IDLE_UNITS = 67_108_864;
/** What each line counts besides, because short ones take time too. */
const LINE_UNITS = 64;

/** The error of a program that exceeded a timeout. @param what its failure, such as `has not begun` */
export const programLate = (what: string, limitMs: number): AppError =>
  new AppError("provider_unreachable", `This agent's program ${what} for ${Math.round(limitMs / 1_000)} s.`);

export interface ProgramTimes {
  /** The timeout until the program's first output, in ms. */
  readonly startMs: number;
  /** The timeout between two outputs, in ms. */
  readonly silenceMs: number;
}

export interface ProgramTools {
  readonly supervisor: Supervisor;
  readonly clock: Clock;
  readonly env: Environment;
  /** The programs that the node may run at once. */
  readonly permits: Semaphore;
  /** Absent: the exits of programs of aborted runs are not logged. */
  readonly log?: Logger | undefined;
}

/** @throws AppError `provider_refused` if the program cannot be started on this machine */
function fileOf(entry: ProgramEntry, env: Environment): string {
  const { file, problem } = locateProgram(entry, env);
  if (file !== undefined) return file;
  throw new AppError("provider_refused", `This agent cannot start here: ${problem}.`);
}

/**
 * The part that says which program starts, without the secrets of its environment.
 * @throws AppError `provider_refused` if the program cannot be started on this machine
 */
export function startPartOf(entry: ProgramEntry, args: readonly string[], env: Environment): Part {
  fileOf(entry, env);
  const { text } = createRedactor(entry, env);
  return {
    type: "start",
    command: [entry.command, ...args].map((word) => text(word)),
    cwd: entry.cwd ?? process.cwd(),
  };
}

/** Start a program. Its permit is released when it has ended, or at once if it cannot be started. */
export async function startProgram(
  file: string,
  entry: ProgramEntry,
  { supervisor, env }: Pick<ProgramTools, "supervisor" | "env">,
  release: () => void,
): Promise<ChildProgram> {
  const { args, cwd = process.cwd(), run_as: user } = entry;
  try {
    const child = await supervisor.start({ file, args, cwd, env: environmentOf(entry, env), user });
    void child.ended.then(release);
    return child;
  } catch (error) {
    release();
    throw error;
  }
}

/** A part that an adapter made of a program's output, or why the run fails. */
export type ProgramItem = Part | { readonly type: "failure"; readonly error: unknown };

/**
 * One program for one run: its output as items in a queue, its exit, and its timeouts. Log lines become parts here.
 */
export class ProgramRun {
  readonly child: ChildProgram;
  readonly items = new BoundedQueue<ProgramItem>(MAX_WAITING_UNITS);
  /** The types of the parts that were drained. */
  readonly drained = new Set<Part["type"]>();
  /** Removes the program's secrets. */
  readonly redactor: Redactor;
  readonly #parts: RedactedParts;
  readonly #clock: Clock;
  readonly #times: ProgramTimes;
  readonly #logged: Promise<void>;
  #lastSignAt: number;
  #hasGivenSign = false;
  #idleUnits = 0;
  #flood: AppError | undefined;
  #exit: Exit | undefined;
  #isExitReported = false;

  /**
   * Start the program, as soon as the node has a permit for it. The program of a sub-agent does not wait, because its
   * caller may have the permit that it would wait for. A program acts from its start on, so the floor knows of it
   * before: a lost run does not start it again (rule C11).
   * @throws AppError `provider_refused` if the program cannot be started on this machine, `busy` if no permit is free
   */
  static async start(
    entry: ProgramEntry,
    args: readonly string[],
    times: ProgramTimes,
    tools: ProgramTools,
    { turn, control }: { turn: Turn; control: RunControl },
  ): Promise<ProgramRun> {
    const file = fileOf(entry, tools.env);
    const isNested = (turn.tree?.path.length ?? 1) > 1;
    const release = isNested ? tools.permits.tryAcquire() : await tools.permits.acquire(control.signal);
    if (!release)
      throw new AppError("busy", "This node runs as many programs as it may. Try again when one has ended.");
    try {
      await control.untilMayAct();
    } catch (error) {
      release();
      throw error;
    }
    try {
      const child = await startProgram(file, { ...entry, args }, tools, release);
      return new ProgramRun(child, createRedactor(entry, tools.env), times, tools.clock);
    } catch (error) {
      throw new AppError("provider_refused", "This agent's program cannot be started.", { cause: error });
    }
  }

  private constructor(child: ChildProgram, redactor: Redactor, times: ProgramTimes, clock: Clock) {
    this.child = child;
    this.redactor = redactor;
    this.#parts = new RedactedParts(redactor);
    this.#times = times;
    this.#clock = clock;
    this.#lastSignAt = clock.now();
    this.#logged = this.#readLog();
    void child.exited.then((exit) => {
      this.#exit = exit;
    });
  }

  /** Restart the timeout, because the program produced output. */
  noteSign(): void {
    this.#hasGivenSign = true;
    this.#lastSignAt = this.#clock.now();
  }

  /** The program has produced a part of its reply: the limit of its other output starts again. */
  noteReply(): void {
    this.#idleUnits = 0;
  }

  /** Put a part into the queue, without secrets. */
  emit(part: Part): void {
    if (part.type !== "log") this.noteReply();
    for (const clean of this.#parts.redact(part)) this.items.push(clean, weightOf(clean));
  }

  /** A line for the message's log. Its beginning is kept. */
  log(stream: "stdout" | "stderr", text: string): void {
    this.#log(stream, this.redactor.text(text));
  }

  /** The ends of texts that still wait for the rest of a secret, because their messages end here. */
  drainWaiting(): Part[] {
    return this.#parts.end();
  }

  /** Close the queue behind all parts. */
  close(): void {
    for (const part of this.drainWaiting()) this.items.push(part, weightOf(part));
    this.items.close();
  }

  /**
   * The lines of standard output, read only while the queue has room.
   * @throws AppError `too_large` if it prints too much without a part of a reply
   */
  async *lines(maxUnits: number): AsyncGenerator<Line> {
    for await (const line of readLines(this.child.stdout, maxUnits)) {
      this.noteSign();
      this.#noteIdle(line.text.length);
      yield line;
      await this.items.room();
    }
  }

  /** Resolves when the whole log was read. */
  async logged(): Promise<void> {
    await this.#logged;
  }

  /**
   * The parts up to the last one. Silence does not count while no part is requested, or while `isExcused` returns true
   * because the program waits for a person.
   *
   * @returns why the run failed, if it did, as after a timeout or by a log without end; throws only if it is aborted
   */
  async *drain(signal: AbortSignal, isExcused: () => boolean = () => false): AsyncGenerator<Part, unknown> {
    let failure: unknown;
    try {
      for (let item = await this.#next(signal, isExcused); item; item = await this.#next(signal, isExcused)) {
        if (item.type === "failure") failure ??= item.error;
        else {
          this.drained.add(item.type);
          yield item;
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      failure ??= error;
      yield* this.drainWaiting();
    }
    return failure;
  }

  async #next(signal: AbortSignal, isExcused: () => boolean): Promise<ProgramItem | undefined> {
    // Unread output does not count as silence of the program.
    if (this.#hasGivenSign) this.#lastSignAt = this.#clock.now();
    for (;;) {
      signal.throwIfAborted();
      if (this.#flood) throw this.#flood;
      const item = this.items.shift();
      if (item !== undefined) return item;
      if (this.items.isOver) return undefined;
      await this.#wait(signal, isExcused);
    }
  }

  /** The exit of the program as a part; undefined if it was reported already. Call it after the exit. */
  exitPart(): Part | undefined {
    if (this.#isExitReported || !this.#exit) return undefined;
    this.#isExitReported = true;
    return { type: "exit", ...this.#exit };
  }

  /** Log the exit of an aborted run's program, because the run itself no longer receives it. */
  logExit(log: Logger | undefined, facts: object): void {
    const exit = this.exitPart();
    if (exit?.type !== "exit") return;
    const { code, signal, durationMs } = exit;
    log?.info({ ...facts, code, signal, durationMs }, "the program of an aborted run has ended");
  }

  get #limitMs(): number {
    return this.#hasGivenSign ? this.#times.silenceMs : this.#times.startMs;
  }

  #isLate(): boolean {
    return this.#clock.now() - this.#lastSignAt >= this.#limitMs;
  }

  #timeout(): AppError {
    return programLate(this.#hasGivenSign ? "has given no sign" : "has not begun", this.#limitMs);
  }

  #noteIdle(units: number): void {
    this.#idleUnits += units + LINE_UNITS;
    if (this.#idleUnits <= MAX_IDLE_UNITS) return;
    throw new AppError(
      "too_large",
      `This agent's program printed ${MAX_IDLE_UNITS.toLocaleString("en")} characters without a part of a reply.`,
    );
  }

  async #wait(signal: AbortSignal, isExcused: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<"aborted" | "late">();
    const onAbort = () => resolve("aborted");
    signal.addEventListener("abort", onAbort, { once: true });
    const leftMs = Math.max(this.#lastSignAt + this.#limitMs - this.#clock.now(), 0);
    const timer: Timer = this.#clock.after(leftMs, () => resolve("late"));
    try {
      const outcome = await Promise.race([this.items.ready(), promise]);
      if (outcome !== "late") return;
      if (isExcused()) {
        this.noteSign();
        return;
      }
      if (this.#isLate()) throw this.#timeout();
    } finally {
      timer.cancel();
      signal.removeEventListener("abort", onAbort);
    }
  }

  async #readLog(): Promise<void> {
    // A secret may have several lines, or stand where a long line is cut: `waiting` may be its beginning.
    let waiting = "";
    let begun = "";
    const addLines = (more: string) => {
      const [last = "", ...lines] = (begun + more).split("\n").reverse();
      for (const line of lines.reverse()) this.#logPieces(line);
      begun = last.length > MAX_LOG_LINE_UNITS ? this.#logPieces(last, MAX_LOG_LINE_UNITS) : last;
    };
    try {
      for await (const { text, isEnd } of readLines(this.child.stderr, MAX_LOG_LINE_UNITS)) {
        this.#noteIdle(text.length);
        const { clean, rest } = this.redactor.split(waiting + text + (isEnd ? "\n" : ""));
        waiting = rest;
        addLines(clean);
        await this.items.room();
      }
    } catch (error) {
      // Otherwise the output was discarded.
      if (error instanceof AppError) this.#flood = error;
    }
    addLines(`${this.redactor.end(waiting)}\n`);
  }

  /** @returns the end of the line, of at most `keptUnits`, that was not logged */
  #logPieces(line: string, keptUnits = 0): string {
    let rest = line;
    while (rest.length > keptUnits) {
      const piece = cutText(rest, MAX_LOG_LINE_UNITS);
      this.#log("stderr", piece);
      rest = rest.slice(piece.length);
    }
    return rest;
  }

  #log(stream: "stdout" | "stderr", clean: string): void {
    const text = cutText(clean, MAX_LOG_LINE_UNITS);
    this.items.push({ type: "log", stream, text }, text.length + 64);
  }
}

/** The size of a part in the queue, in UTF-16 units. */
function weightOf(part: Part): number {
  return "text" in part ? part.text.length + 64 : JSON.stringify(part).length;
}
