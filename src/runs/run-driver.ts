// Rules C11, C12 and C16 of docs/inside/correctness.md.

import type { Agent, NewInteraction, Part, RunControl, Turn } from "../agents/agent.ts";
import { AppError } from "../protocol/errors.ts";
import type { Delta } from "../protocol/event.ts";
import type { RequestId } from "../protocol/ids.ts";
import type { Answer, Interaction } from "../protocol/interaction.ts";
import { MAX_REASON, type RunFailure } from "../protocol/internal/node-report.ts";
import type { Directive, RunOutcome } from "../protocol/internal/run.ts";
import { type ImageRef, masterRef } from "../protocol/message.ts";
import { flow } from "../shared/flow.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { cutText } from "../shared/text.ts";
import { sleep, unlessAborted, within } from "../shared/waiting.ts";
import { boundInteraction, boundPart } from "./bounded-part.ts";
import { type Ending, MessageWriter } from "./message-writer.ts";
import { Reporter, type ReporterOptions } from "./reporter.ts";
import type { SummaryWork } from "./summary-reader.ts";
import { SummaryText } from "./summary-text.ts";

/** The longest log of a run, in UTF-16 units; the rest is dropped, and the last line says so (rule C12). */
const MAX_LOG_UNITS = 1_048_576;
/** Text and reasoning of one run, in UTF-16 units: about a hundred times the longest answer of a model (rule C12). */
const MAX_REPLY_UNITS = 4_194_304;
/**
 * Tool calls, their results and data of one run, in UTF-16 units, each with what its event costs besides. Coding agents
 * that work for hours need a tenth of it.
 */
const MAX_EVENT_UNITS = 268_435_456;
const EVENT_UNITS = 256;
/** Questions and confirmations of one run that wait for a person: the session's row holds them. */
const MAX_QUESTIONS = 64;
/** Questions of one run that its agent may withdraw; answered ones are paced by the person who answers. */
const MAX_WITHDRAWN = 256;
/**
 * How long the driver waits for a stopped agent, in ms: as long as an agent's program gets to end, and less than the
 * session's next attempt waits for it (rule C16).
 */
const STOP_MS = 9_000;
/** The longest time that one attempt at a summary may take, in ms. */
const SUMMARY_MS = 300_000;

/** What an attempt's agent is to do: answer a turn, or write a summary. */
export type RunWork = { purpose?: undefined; request: Turn } | SummaryWork;

export interface RunDriverOptions extends Pick<ReporterOptions, "sessionId" | "send"> {
  /** Writes summaries, if the work is one. */
  agent: Agent;
  work: RunWork;
  clock: Clock;
  newId: () => string;
  loadImage: (image: ImageRef) => Promise<Uint8Array>;
  /** The name of this worker's disk, if workers have separate disks. */
  home?: string | undefined;
  stream: (delta: Delta) => void;
  /** Called when the floor holds the attempt, or lets it go on. */
  onHold: (isHeld: boolean) => void;
  /** Called when the attempt begins or stops waiting for a person. */
  onWait: () => void;
  /** Adds the run's ids to every line. */
  log: Logger;
}

class Stopped extends Error {}

/** Drives one attempt: pulls its agent, reports the agent's parts, and follows the floor's decisions. */
export class RunDriver {
  readonly #options: RunDriverOptions;
  readonly #abort = new AbortController();
  readonly #reporter: Reporter;
  readonly #writer: MessageWriter;
  /** What a summary's agent wrote; undefined for a turn. */
  readonly #summary: SummaryText | undefined;
  readonly #questions = new Map<RequestId, (answer: Answer) => void>();
  #held: PromiseWithResolvers<void> | undefined;
  /** Rejects the promise that the driver awaits. */
  #interrupt: ((reason: Error) => void) | undefined;
  #logUnits = 0;
  #replyUnits = 0;
  #eventUnits = 0;
  #withdrawn = 0;
  /** How the attempt ends in place of `stopped`. */
  #instead: RunOutcome | undefined;
  /** Why the run failed, for operators. */
  failure: Omit<RunFailure, "at" | "agentId"> | undefined;

  constructor(options: RunDriverOptions) {
    this.#options = options;
    const { agent, work, sessionId, clock, send, stream } = options;
    const { runId, attempt } = work.request;
    this.#summary = work.purpose && new SummaryText(work);
    this.#reporter = new Reporter({
      sessionId,
      runId,
      attempt,
      clock,
      send,
      onDirective: (directive) => this.obey(directive),
      onLost: (error) => this.#giveUp(error),
    });
    const report = this.#reporter.add.bind(this.#reporter);
    this.#writer = new MessageWriter({ runId, attempt, master: masterRef(agent.id), report, stream });
  }

  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** Whether a question to a person is unanswered. */
  get isWaiting(): boolean {
    return this.#questions.size > 0;
  }

  /** Whether the attempt is stopping: only its outcome is still to be reported. */
  get isEnding(): boolean {
    return this.#abort.signal.aborted;
  }

  /** Pull the agent to its end, report the outcome, and return it. Never rejects. */
  async run(): Promise<RunOutcome> {
    flow.onHop?.("agent", `drives ${this.#summary ? "a summary" : "a turn"}`);
    const tooLong = this.#summary && this.#options.clock.after(SUMMARY_MS, () => this.#stopLate());
    const end = await this.#pullToTheEnd();
    tooLong?.cancel();
    const outcome = end.kind === "stopped" && this.#instead ? this.#instead : end;
    if (this.#summary?.usage) this.#reporter.add({ kind: "usage", usage: this.#summary.usage });
    this.#writer.closeAll(endingOf(outcome));
    // A question or a delay that the agent left behind ends with the run.
    this.#abort.abort(new Stopped("the run has ended"));
    await this.#reporter.finish(outcome);
    return outcome;
  }

  /** Follow the floor's decision: go, hold, or stop. It may repeat answers that were given before. */
  obey({ verdict, answers }: Directive): void {
    for (const answer of answers) this.answer(answer);
    if (verdict === "stop") this.stop("the floor stopped the run");
    else this.#setHeld(verdict === "hold");
  }

  answer(answer: Answer): void {
    this.#questions.get(answer.requestId)?.(answer);
  }

  stop(reason: string): void {
    const stopped = new Stopped(reason);
    this.#abort.abort(stopped);
    this.#interrupt?.(stopped);
    this.#held?.resolve();
  }

  /** Stop, and let another attempt begin: at once, or when the session is resumed (`yielded`). */
  giveBack(yielded: boolean): void {
    this.#instead ??= { kind: "lost", yielded };
    this.stop(yielded ? "it was held too long" : "the worker is shutting down");
  }

  #stopLate(): void {
    this.#instead ??= this.#failure(
      new AppError("provider_unreachable", "The model wrote no summary within five minutes."),
    );
    this.stop("it took too long");
  }

  /** Stop without a last report, because the floor is unreachable. */
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
      // Show the floor at once that the attempt still has a driver.
      this.#reporter.flush();
    }
    this.#setPatience();
    this.#options.onHold(isHeld);
  }

  #noteWaiting(): void {
    this.#setPatience();
    this.#options.onWait();
  }

  #setPatience(): void {
    this.#reporter.setPatience(!this.isHeld && !this.isWaiting);
  }

  #giveUp(error: unknown): void {
    this.#options.log.error({ err: error }, "the floor rejects the reports of this run");
    this.stop("the floor rejects the reports");
  }

  async #pullToTheEnd(): Promise<RunOutcome> {
    const { agent, work } = this.#options;
    const { signal } = this.#abort;
    const control = this.#control();
    try {
      const stream = work.purpose ? agent.summarize!(work.request, control) : agent.run(work.request, control);
      const parts = stream[Symbol.asyncIterator]();
      try {
        while (!this.#summary?.isFull) {
          await this.#untilMayAct();
          const next = await this.#interruptible(parts.next());
          if (next.done) break;
          // A part that arrived while the session was paused is reported after the resume.
          await this.#untilMayAct();
          this.#add(next.value);
        }
      } finally {
        await this.#leave(parts);
      }
      return this.#summary?.finish() ?? { kind: "done", ...withSummary(this.#writer.summary) };
    } catch (error) {
      if (signal.aborted) return { kind: "stopped" };
      return this.#failure(error);
    }
  }

  async #untilMayAct(): Promise<void> {
    await this.#reporter.room();
    while (this.#held && !this.#abort.signal.aborted) await this.#held.promise;
    this.#abort.signal.throwIfAborted();
  }

  /**
   * The same, once the floor has what the agent did so far. A later attempt then learns that this one may have acted
   * (rule C11), and this one learns whether there is a later attempt.
   */
  async #untilRecorded(): Promise<void> {
    await this.#reporter.acknowledged();
    await this.#untilMayAct();
  }

  /** Settles like `promise`, or rejects when the run is stopped. One call at a time. */
  #interruptible<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      promise.then(resolve, reject);
    });
  }

  /** Let the agent clean up, for at most `STOP_MS`. */
  async #leave(parts: AsyncIterator<Part>): Promise<void> {
    const left = Promise.resolve(parts.return?.()).catch(() => {});
    await within(this.#options.clock, STOP_MS, left);
  }

  #failure(error: unknown): RunOutcome {
    const { log, agent } = this.#options;
    if (error instanceof AppError && error.code !== "internal") {
      const { code, message, cause, retryAfterMs } = error;
      const reason = cutText(cause instanceof Error ? cause.message : message, MAX_REASON);
      this.failure = { errorCode: code, reason };
      const event = this.#summary ? "a summary failed; the session stays as it is" : "a run failed";
      log.warn({ agentId: agent.id, code, reason }, event);
      return {
        kind: "failed",
        code,
        message,
        ...(retryAfterMs !== undefined && { retryAfterMs }),
      };
    }
    log.error({ err: error, agentId: agent.id }, "an agent failed");
    const { message } = new AppError("internal");
    this.failure = { errorCode: "internal", reason: message };
    return { kind: "failed", code: "internal", message };
  }

  #add(unbounded: Part): void {
    const { part, units } = boundPart(unbounded);
    if (this.#summary) return this.#summary.add(part);
    const { agent = masterRef(this.#options.agent.id) } = part;
    const { runId } = this.#options.work.request;
    const reporter = this.#reporter;
    switch (part.type) {
      case "text":
      case "reasoning":
        this.#measure(units);
        return this.#writer.write(part.type, part.text, agent);
      case "message":
        this.#measure(units);
        return this.#writer.writeWhole(part.content, part.output === undefined ? {} : { output: part.output }, agent);
      case "tool-call":
        this.#measureEvent(units);
        this.#writer.noteCall(part.call.toolCallId, agent);
        reporter.add({ kind: "tool_call", call: part.call, agent }, units + EVENT_UNITS);
        // Readers see the call while its tool runs.
        return reporter.flush();
      case "tool-result": {
        const { toolCallId, toolName, content, status } = part;
        this.#measureEvent(units);
        this.#writer.closeWritten(agent);
        this.#writer.closeCall(toolCallId);
        return reporter.add({ kind: "tool_result", toolCallId, toolName, content, status, agent }, units + EVENT_UNITS);
      }
      case "finish":
        this.#options.log.warn(
          { agentId: agent.name, finishReason: part.reason, ...(part.word !== undefined && { word: part.word }) },
          "a reply is incomplete",
        );
        return this.#writer.finish(part.reason, part.word, agent);
      case "usage":
        this.#writer.count(part.usage, agent);
        return reporter.add({ kind: "usage", usage: part.usage, ...(part.agent && { agent: part.agent }) });
      case "provider-session":
        return reporter.add({
          kind: "provider_session",
          ...(part.id !== undefined && { id: part.id }),
          ...(part.isLocal && this.#options.home !== undefined && { home: this.#options.home }),
        });
      case "start": {
        const { command, cwd } = part;
        return reporter.add({ kind: "data", name: "start", data: { runId, command, cwd }, agent });
      }
      case "exit": {
        const { code, signal, durationMs } = part;
        return reporter.add({ kind: "data", name: "exit", data: { runId, code, signal, durationMs }, agent });
      }
      case "data":
        this.#measureEvent(units);
        return reporter.add({ kind: "data", name: part.name, data: part.data, agent }, units + EVENT_UNITS);
      case "log":
        return this.#log(part.stream, part.text, agent);
    }
  }

  /** @throws AppError `too_large` if the run exceeds `MAX_REPLY_UNITS`; the text so far is kept */
  #measure(units: number): void {
    this.#replyUnits += units;
    if (this.#replyUnits <= MAX_REPLY_UNITS) return;
    throw new AppError("too_large", "The reply is longer than 4,194,304 characters, and was cut there.");
  }

  /** @throws AppError `too_large` if the run exceeds `MAX_EVENT_UNITS` */
  #measureEvent(units: number): void {
    this.#eventUnits += units + EVENT_UNITS;
    if (this.#eventUnits <= MAX_EVENT_UNITS) return;
    throw new AppError("too_large", "The tool calls and data of the run are longer than 268,435,456 characters.");
  }

  #log(stream: "stdout" | "stderr", text: string, agent: ReturnType<typeof masterRef>): void {
    if (this.#logUnits > MAX_LOG_UNITS) return;
    this.#logUnits += text.length;
    const { clock, newId } = this.#options;
    const line =
      this.#logUnits > MAX_LOG_UNITS ? "… the log was cut here: it is longer than 1,048,576 characters" : text;
    this.#reporter.add({
      kind: "log",
      messageId: this.#writer.newest(agent),
      line: { id: newId(), stream, text: line, timestamp: clock.now() },
    });
  }

  #control(): RunControl {
    return {
      signal: this.#abort.signal,
      untilMayAct: () => this.#untilRecorded(),
      loadImage: this.#options.loadImage,
      askUser: (interaction, withdrawn) => this.#askUser(interaction, withdrawn),
      sleep: (delayMs, failure) => {
        if (failure !== undefined) this.#reporter.add({ kind: "retry", after: failure, delayMs });
        return sleep(this.#options.clock, delayMs, this.#abort.signal);
      },
      after: (delayMs, callback) => this.#options.clock.after(delayMs, callback),
    };
  }

  async #askUser(unbounded: NewInteraction, withdrawn?: AbortSignal): Promise<Answer> {
    withdrawn?.throwIfAborted();
    if (this.#summary) throw new Error("a summary asks no person");
    if (this.#withdrawn >= MAX_WITHDRAWN) throw new AppError("busy", `${MAX_WITHDRAWN} questions were withdrawn.`);
    if (this.#questions.size >= MAX_QUESTIONS)
      throw new AppError("busy", `This run already waits for the answers to ${MAX_QUESTIONS} questions.`);
    const interaction = boundInteraction(unbounded);
    const requestId = this.#options.newId() as RequestId;
    const answer = await unlessAborted<Answer | undefined>(this.#abort.signal, (resolve) => {
      const withdraw = () => {
        // The end of the run ends its questions.
        if (this.isEnding) return;
        this.#withdrawn += 1;
        this.#reporter.add({ kind: "withdraw", requestId });
        this.#reporter.flush();
        resolve(undefined);
      };
      withdrawn?.addEventListener("abort", withdraw, { once: true });
      this.#questions.set(requestId, resolve);
      this.#writer.closeAllWritten();
      this.#reporter.add({ kind: "ask", interaction: { ...interaction, requestId } as Interaction });
      this.#reporter.flush();
      this.#noteWaiting();
      return () => {
        withdrawn?.removeEventListener("abort", withdraw);
        this.#questions.delete(requestId);
        this.#noteWaiting();
      };
    });
    if (!answer) throw withdrawn!.reason;
    return answer;
  }
}

function endingOf(outcome: RunOutcome): Ending {
  if (outcome.kind === "done") return { status: "success" };
  if (outcome.kind !== "failed") return { status: "interrupted" };
  return { status: "error", errorCode: outcome.code, errorMessage: outcome.message };
}

const withSummary = (summary: string | undefined) => (summary === undefined ? {} : { summary });
