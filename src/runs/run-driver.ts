import type { Agent, NewInteraction, Part, RunControl, Turn } from "../agents/agent.ts";
import type { Clock, Timer } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Delta } from "../protocol/event.ts";
import type { RequestId } from "../protocol/ids.ts";
import type { Answer, Interaction } from "../protocol/interaction.ts";
import type { Logger } from "../protocol/logger.ts";
import { type ImageRef, masterRef, type Usage } from "../protocol/message.ts";
import type { RunOutcome, Standing } from "../protocol/run.ts";
import { MessageWriter } from "./message-writer.ts";
import { Reporter, type ReporterOptions } from "./reporter.ts";

/** Lines a run may log, in UTF-16 units; the rest is cut, and the last line says so (rule C12). */
const MAX_LOG_UNITS = 1_048_576;
/** How long an agent that was told to stop may take before it is left alone, in ms. */
const STOP_MS = 5_000;

export interface RunDriverOptions extends Pick<ReporterOptions, "sessionId" | "ask"> {
  agent: Agent;
  turn: Turn;
  clock: Clock;
  newId: () => string;
  loadImage: (image: ImageRef) => Promise<Uint8Array>;
  stream: (delta: Delta) => void;
  /** The attempt was told to hold, or to go on. */
  onHold: (isHeld: boolean) => void;
  /** Says with every line which run it is about. */
  log: Logger;
}

class Stopped extends Error {}

/** Drives one attempt: pulls its agent, reports what it says, and obeys the floor's word on it. */
export class RunDriver {
  readonly #options: RunDriverOptions;
  readonly #abort = new AbortController();
  readonly #reporter: Reporter;
  readonly #writer: MessageWriter;
  readonly #asked = new Map<RequestId, (answer: Answer) => void>();
  #held: PromiseWithResolvers<void> | undefined;
  /** Rejects what the driver waits for. */
  #interrupt: ((reason: Error) => void) | undefined;
  #usage: Usage | undefined;
  #logUnits = 0;
  #givenBack: RunOutcome | undefined;

  constructor(options: RunDriverOptions) {
    this.#options = options;
    const { agent, turn, sessionId, clock, ask, stream } = options;
    const { runId, attempt } = turn;
    this.#reporter = new Reporter({
      sessionId,
      runId,
      attempt,
      clock,
      ask,
      onStanding: (standing) => this.obey(standing),
      onLost: (error) => this.#giveUp(error),
    });
    const report = this.#reporter.add.bind(this.#reporter);
    this.#writer = new MessageWriter({ runId, attempt, master: masterRef(agent.id), report, stream });
  }

  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** Nothing more is to come but its outcome. */
  get isEnding(): boolean {
    return this.#abort.signal.aborted;
  }

  /** Pull the agent to its end, report how it ended, and say so. Never rejects. */
  async run(): Promise<RunOutcome["kind"]> {
    const end = await this.#pullToTheEnd();
    const outcome = end.kind === "stopped" && this.#givenBack ? this.#givenBack : end;
    if (outcome.kind === "done") this.#writer.close("success", this.#usage && { usage: this.#usage });
    else this.#writer.close(outcome.kind === "failed" ? "error" : "interrupted");
    // Whatever the agent left behind, a question or a delay, ends with it.
    this.#abort.abort(new Stopped("the run has ended"));
    await this.#reporter.finish(outcome);
    return outcome.kind;
  }

  /** The floor's word: go on, stop pulling, or end; and answers, perhaps for the second time. */
  obey({ standing, answers }: Standing): void {
    for (const answer of answers) this.answer(answer);
    if (standing === "stop") this.stop("the floor does not want it any more");
    else this.#setHeld(standing === "hold");
  }

  answer(answer: Answer): void {
    this.#asked.get(answer.requestId)?.(answer);
  }

  stop(reason: string): void {
    const stopped = new Stopped(reason);
    this.#abort.abort(stopped);
    this.#interrupt?.(stopped);
    this.#held?.resolve();
  }

  /** Stop, and let another attempt begin: at once, or (`yielded`) when the session is resumed. */
  giveBack(yielded: boolean): void {
    this.#givenBack ??= { kind: "lost", yielded };
    this.stop(yielded ? "it was held too long" : "the worker is shutting down");
  }

  /** End without another word: the floor cannot be had. */
  abandon(): void {
    this.#reporter.close();
    this.stop("the worker is gone");
  }

  #setHeld(isHeld: boolean): void {
    if (isHeld === this.isHeld) return;
    if (isHeld) {
      this.#held = Promise.withResolvers();
    } else {
      this.#held?.resolve();
      this.#held = undefined;
      // The floor hears at once that somebody still drives it.
      this.#reporter.flush();
    }
    this.#setPatience();
    this.#options.onHold(isHeld);
  }

  #setPatience(): void {
    this.#reporter.setPatience(!this.isHeld && this.#asked.size === 0);
  }

  #giveUp(error: unknown): void {
    this.#options.log.error({ err: error }, "the floor takes no report of this run");
    this.stop("the floor takes no report");
  }

  async #pullToTheEnd(): Promise<RunOutcome> {
    const { agent, turn } = this.#options;
    const { signal } = this.#abort;
    try {
      const parts = agent.run(turn, this.#control())[Symbol.asyncIterator]();
      try {
        for (;;) {
          await this.#untilWanted();
          const next = await this.#interruptible(parts.next());
          if (next.done) return { kind: "done", ...withSummary(this.#writer.summary) };
          // What came while the session was paused is said when it goes on.
          await this.#untilWanted();
          this.#take(next.value);
        }
      } finally {
        await this.#leave(parts);
      }
    } catch (error) {
      if (signal.aborted) return { kind: "stopped" };
      return this.#failure(error);
    }
  }

  async #untilWanted(): Promise<void> {
    await this.#reporter.room();
    while (this.#held && !this.#abort.signal.aborted) await this.#held.promise;
    this.#abort.signal.throwIfAborted();
  }

  /** Settles as `promise` does, or rejects when the run is stopped. One at a time. */
  #interruptible<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      promise.then(resolve, reject);
    });
  }

  /** Let the agent clean up; one that does not come to an end is left alone. */
  async #leave(parts: AsyncIterator<Part>): Promise<void> {
    let timer: Timer | undefined;
    const tooLong = new Promise<void>((resolve) => {
      timer = this.#options.clock.after(STOP_MS, resolve);
    });
    const left = Promise.resolve(parts.return?.()).then(
      () => {},
      () => {},
    );
    await Promise.race([left, tooLong]);
    timer?.cancel();
  }

  #failure(error: unknown): RunOutcome {
    if (error instanceof AppError && error.code !== "internal") {
      const retryAfterMs = error.facts["retryAfterMs"];
      return {
        kind: "failed",
        code: error.code,
        message: error.message,
        ...(typeof retryAfterMs === "number" && { retryAfterMs }),
      };
    }
    const { log, agent } = this.#options;
    log.error({ err: error, agentId: agent.id }, "an agent failed");
    const { message } = new AppError("internal");
    return { kind: "failed", code: "internal", message };
  }

  #take(part: Part): void {
    const { agent = masterRef(this.#options.agent.id) } = part;
    const reporter = this.#reporter;
    switch (part.type) {
      case "text":
      case "reasoning":
        return this.#writer.write(part.type, part.text, agent);
      case "message":
        this.#writer.close();
        this.#writer.write("text", part.content, agent);
        return this.#writer.close("success", part.output === undefined ? {} : { output: part.output });
      case "tool-call":
        this.#writer.close();
        return reporter.add({ kind: "tool_call", call: part.call, agent });
      case "tool-result": {
        this.#writer.close();
        const { toolCallId, toolName, content, status } = part;
        return reporter.add({ kind: "tool_result", toolCallId, toolName, content, status, agent });
      }
      case "usage":
        this.#usage = part.usage;
        return reporter.add({ kind: "usage", usage: part.usage });
      case "provider-session":
        return reporter.add({ kind: "provider_session", id: part.id });
      case "data":
        return reporter.add({ kind: "data", name: part.name, data: part.data, agent });
      case "log":
        return this.#log(part.stream, part.text, agent);
    }
  }

  #log(stream: "stdout" | "stderr", text: string, agent: ReturnType<typeof masterRef>): void {
    if (this.#logUnits > MAX_LOG_UNITS) return;
    this.#logUnits += text.length;
    const { clock, newId } = this.#options;
    const line = this.#logUnits > MAX_LOG_UNITS ? "… the log was cut here: it is longer than 1 MiB" : text;
    this.#reporter.add({
      kind: "log",
      messageId: this.#writer.current(agent),
      line: { id: newId(), stream, text: line, timestamp: clock.now() },
    });
  }

  #control(): RunControl {
    return {
      signal: this.#abort.signal,
      loadImage: this.#options.loadImage,
      ask: (interaction) => this.#ask(interaction),
      sleep: (delayMs) => this.#sleep(delayMs),
    };
  }

  async #sleep(delayMs: number): Promise<void> {
    await this.#unlessStopped<undefined>((resolve) => {
      const timer = this.#options.clock.after(delayMs, () => resolve(undefined));
      return () => timer.cancel();
    });
  }

  /** A promise that the end of the run rejects; what `start` returns is called when it is settled. */
  async #unlessStopped<T>(start: (resolve: (value: T) => void) => () => void): Promise<T> {
    const { signal } = this.#abort;
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const end = start(resolve);
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", onAbort);
      end();
    }
  }

  #ask(interaction: NewInteraction): Promise<Answer> {
    const requestId = this.#options.newId() as RequestId;
    return this.#unlessStopped<Answer>((resolve) => {
      this.#asked.set(requestId, resolve);
      this.#writer.close();
      this.#reporter.add({ kind: "ask", interaction: { ...interaction, requestId } as Interaction });
      this.#reporter.flush();
      this.#setPatience();
      return () => {
        this.#asked.delete(requestId);
        this.#setPatience();
      };
    });
  }
}

const withSummary = (summary: string | undefined) => (summary === undefined ? {} : { summary });
