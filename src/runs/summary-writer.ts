import type { Agent, Part, RunControl } from "../agents/agent.ts";
import { AppError } from "../protocol/errors.ts";
import type { SessionId } from "../protocol/ids.ts";
import type { Command } from "../protocol/internal/command.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import type { SummaryResult, SummaryTask } from "../protocol/internal/run.ts";
import { addUsage, headlineOf, type Usage } from "../protocol/message.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { cleanText, cutText } from "../shared/text.ts";
import { sleep } from "../shared/waiting.ts";
import type { MessageStore } from "../store/store.ts";
import { readSummaryWork } from "./summary-reader.ts";

/** The longest summary, in UTF-16 units; more of it is cut. */
const MAX_SUMMARY_UNITS = 8_192;
/** The longest time that one attempt may take, in ms. */
const PATIENCE_MS = 300_000;
/** How often the floor is asked whether the summary is still wanted, in ms. */
const STILL_AFTER_MS = 5_000;
/** The pauses before each try to report the result, in ms. Then the next sweep offers the summary again. */
const PAUSES_MS = [0, 500, 1_000, 2_000, 4_000];

export interface SummaryWriterOptions {
  agent: Agent | undefined;
  task: SummaryTask;
  sessionId: SessionId;
  store: MessageStore;
  clock: Clock;
  /** Sends a command to the session's floor; rejects with an `AppError` if the floor is unreachable. */
  send: (command: Command) => Promise<Reply>;
  /** Adds the ids of the work to every line. */
  log: Logger;
}

/** One attempt at a summary: reads what it is to cover, asks the agent, and reports the result once. */
export class SummaryWriter {
  readonly #options: SummaryWriterOptions;
  readonly #abort = new AbortController();
  #usage: Usage | undefined;
  #isGivenBack = false;

  constructor(options: SummaryWriterOptions) {
    this.#options = options;
  }

  get attempt(): number {
    return this.#options.task.attempt;
  }

  /** Never rejects. Resolves when the floor has the result, or cannot be reached. */
  async run(): Promise<SummaryResult> {
    const { clock, log, task } = this.#options;
    const tooLong = clock.after(PATIENCE_MS, () => {
      log.warn({ agentId: task.agentId }, "a summary failed: it took more than five minutes");
      this.stop();
    });
    const polling = this.#pollWhetherWanted();
    const result = await this.#write();
    tooLong.cancel();
    polling.cancel();
    this.#abort.abort();
    await this.#report(result);
    return result;
  }

  /** The floor no longer wants it, or it took too long. */
  stop(): void {
    this.#abort.abort(new Error("The summary is no longer wanted."));
  }

  /** Let another worker begin anew. */
  giveBack(): void {
    this.#isGivenBack = true;
    this.stop();
  }

  async #write(): Promise<SummaryResult> {
    const { agent, task, store, sessionId, log } = this.#options;
    const { agentId } = task;
    try {
      if (!agent?.summarize) {
        log.warn({ agentId }, "a summary failed: the catalogue has no such agent, or it writes no summaries");
        const message = "The catalogue has no such agent, or it writes no summaries.";
        return { kind: "failed", mayRepeat: false, code: "agent_not_found", message };
      }
      const work = await readSummaryWork(store, sessionId, task);
      this.#abort.signal.throwIfAborted();
      if (!work) return { kind: "unneeded" };
      const text = await this.#collect(agent.summarize(work.request, this.#control()));
      this.#abort.signal.throwIfAborted();
      if (text === "") throw new AppError("provider_unreachable", "The model wrote no summary.");
      const { upTo, hasMore } = work;
      return { kind: "written", text, headline: headlineOf(text), upTo, hasMore, ...this.#counted() };
    } catch (error) {
      if (this.#isGivenBack) return { kind: "lost" };
      return this.#failure(error);
    }
  }

  async #collect(parts: AsyncIterable<Part>): Promise<string> {
    let text = "";
    for await (const part of parts) {
      if (part.type === "usage") this.#usage = this.#usage ? addUsage(this.#usage, part.usage) : part.usage;
      if (part.type === "text") text += part.text;
      if (text.length > MAX_SUMMARY_UNITS * 2) break;
    }
    const whole = cleanText(text.trim());
    return whole.length > MAX_SUMMARY_UNITS ? `${cutText(whole, MAX_SUMMARY_UNITS - 1)}…` : whole;
  }

  #failure(error: unknown): SummaryResult {
    const { log, task } = this.#options;
    const { agentId } = task;
    if (!(error instanceof AppError) || error.code === "internal") {
      if (!this.#abort.signal.aborted) log.error({ err: error, agentId }, "an agent failed at a summary");
      const fault = this.#abort.signal.aborted
        ? new AppError("provider_unreachable", "The model wrote no summary within five minutes.")
        : new AppError("internal");
      return { kind: "failed", mayRepeat: true, code: fault.code, message: fault.message, ...this.#counted() };
    }
    const { code, message, cause } = error;
    const reason = cause instanceof Error ? cause.message : message;
    log.warn({ agentId, code, reason }, "a summary failed; the session stays as it is");
    const { retryAfterMs } = error;
    return {
      kind: "failed",
      mayRepeat: code !== "provider_refused",
      code,
      message,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
      ...this.#counted(),
    };
  }

  readonly #counted = () => (this.#usage ? { usage: this.#usage } : {});

  async #report(result: SummaryResult): Promise<void> {
    const { send, clock, log, sessionId, task } = this.#options;
    const { runId, attempt } = task;
    for (const [index, pauseMs] of PAUSES_MS.entries()) {
      if (pauseMs > 0) await sleep(clock, pauseMs);
      try {
        await send({ type: "run.summary", sessionId, runId, attempt, result });
        return;
      } catch (error) {
        if (index === PAUSES_MS.length - 1) log.warn({ err: error }, "a summary could not be reported");
      }
    }
  }

  #pollWhetherWanted(): Timer {
    const { send, clock, sessionId, task } = this.#options;
    const { runId, attempt } = task;
    let timer: Timer;
    const plan = () => {
      timer = clock.after(STILL_AFTER_MS, () => {
        send({ type: "run.still", sessionId, runId, attempt })
          .then((reply) => {
            if (reply.ok && reply.standing?.standing === "stop") this.stop();
          })
          // The floor is unreachable; the next time asks again.
          .catch(() => {});
        plan();
      });
    };
    plan();
    return { cancel: () => timer.cancel() };
  }

  #control(): RunControl {
    const { clock } = this.#options;
    const { signal } = this.#abort;
    const unavailable = () => Promise.reject(new Error("a summary asks no person and shows no images"));
    return {
      signal,
      untilWanted: async () => signal.throwIfAborted(),
      askUser: unavailable,
      loadImage: unavailable,
      after: (delayMs, callback) => clock.after(delayMs, callback),
      sleep: (delayMs) => sleep(clock, delayMs, signal),
    };
  }
}
