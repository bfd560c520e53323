import type { Agent } from "../agents/agent.ts";
import type { Subscription } from "../bus/bus.ts";
import type { AgentId } from "../protocol/ids.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import type { Command } from "../protocol/internal/command.ts";
import type { RunEffect } from "../protocol/internal/effect.ts";
import { runTopic } from "../protocol/internal/floor-message.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import { RunSignal, type SummaryResult } from "../protocol/internal/run.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { type ClaimOptions, claim } from "./run-claim.ts";
import { SummaryWriter, type SummaryWriterOptions } from "./summary-writer.ts";

/** Summaries that a worker writes at a time; the next sweep offers the others again. */
const MAX_UNDER_WAY = 4;

export interface SummaryRunsOptions extends ClaimOptions {
  agents: { find(id: AgentId): Agent | undefined };
  store: SummaryWriterOptions["store"];
  /** Adds the ids of the work to every line. */
  logOf: (effect: RunEffect) => Logger;
  /** Called when an attempt has ended. `code`: why it failed. */
  onEnded: (agentId: AgentId, result: SummaryResult["kind"], durationMs: number, code: string | undefined) => void;
}

/** The summaries that a worker writes beside its runs: they hold no place that a run could have. */
export class SummaryRuns {
  readonly #options: SummaryRunsOptions;
  readonly #underWay = new Map<string, { done: Promise<void>; writer?: SummaryWriter }>();
  #isStopping = false;

  constructor(options: SummaryRunsOptions) {
    this.#options = options;
  }

  /** Begin, unless the summary is under way here already, or too many are. */
  take(effect: RunEffect): void {
    const { runId } = effect;
    if (this.#isStopping || this.#underWay.has(runId) || this.#underWay.size >= MAX_UNDER_WAY) return;
    const work: { done: Promise<void>; writer?: SummaryWriter } = { done: Promise.resolve() };
    this.#underWay.set(runId, work);
    work.done = this.#carryOut(effect, (writer) => {
      work.writer = writer;
    }).finally(() => this.#underWay.delete(runId));
  }

  /** Begin no more, and give those under way back to their floors. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const all = [...this.#underWay.values()];
    for (const { writer } of all) writer?.giveBack();
    await Promise.all(all.map(({ done }) => done));
  }

  async #carryOut(effect: RunEffect, onBegun: (writer: SummaryWriter) => void): Promise<void> {
    const { bus, epoch, agents, store, clock, send, logOf, onEnded } = this.#options;
    const { sessionId, runId } = effect;
    const log = logOf(effect);
    let writer: SummaryWriter | undefined;
    let subscription: Subscription | undefined;
    try {
      // Subscribe before the claim, so that no signal is missed.
      subscription = await bus.subscribe(runTopic(epoch, runId), (message) => {
        const signal = readMessage(RunSignal, message);
        if (signal?.signal === "who" && writer) void bus.publish(signal.replyTo, writeMessage({ runId }));
        else if (signal?.signal === "stop" && signal.attempt === writer?.attempt) writer.stop();
      });
      const task = (await claim(effect, this.#options))?.summaryTask;
      if (!task || this.#isStopping) return;
      const options = { agent: agents.find(task.agentId), task, sessionId, store, clock, log };
      writer = new SummaryWriter({ ...options, send: (command: Command): Promise<Reply> => send(effect, command) });
      onBegun(writer);
      const begunAt = clock.now();
      const result = await writer.run();
      onEnded(task.agentId, result.kind, clock.now() - begunAt, result.kind === "failed" ? result.code : undefined);
    } catch (error) {
      log.warn({ err: error }, "a summary could not be claimed; the next sweep offers it again");
    } finally {
      subscription?.end();
    }
  }
}
