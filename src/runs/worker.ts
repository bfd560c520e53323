// Rules C10, C14, C16 and C24 of docs/inside/correctness.md.

import type { Agent } from "../agents/agent.ts";
import type { Bus, Subscription } from "../bus/bus.ts";
import { AppError } from "../protocol/errors.ts";
import type { AgentId, RunId } from "../protocol/ids.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import type { Command, Envelope } from "../protocol/internal/command.ts";
import { homeTopic, runTopic } from "../protocol/internal/floor-message.ts";
import type { RunFailure } from "../protocol/internal/node-report.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import { type RunOutcome, RunSignal, type RunTask } from "../protocol/internal/run.ts";
import { RunRequest } from "../protocol/internal/run-request.ts";
import type { Processing, RunQueue } from "../queue/run-queue.ts";
import { flow } from "../shared/flow.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Tracer } from "../shared/ports/tracer.ts";
import { TransientMap } from "../shared/transient-map.ts";
import { sleep, within } from "../shared/waiting.ts";
import type { BlobStore, MessageStore, StoreEpoch } from "../store/store.ts";
import { makeDriver, type RunRefusal, readWork, runFields, runRefusalOf, traceRun } from "./attempt.ts";
import { type RunClaimOptions, requestTask } from "./run-claim.ts";
import type { RunDriver, RunWork } from "./run-driver.ts";
import { RunLimits, type RunLimitsOptions, type RunState } from "./run-limits.ts";

/** The pause before each try to claim a run from an unreachable floor, in ms; then the next sweep offers the run. */
const PAUSES_MS = [0, 250, 500, 1_000, 1_000, 1_000];
/** Signals kept until the attempt's driver starts; the newest ones count. */
const MAX_SIGNALS = 16;

/** The report of a stopping worker on a run that it has claimed, and whose agent has not begun. */
const GIVEN_BACK: RunRefusal = { outcome: { kind: "lost", yielded: false } };

export interface WorkerOptions {
  queue: RunQueue;
  bus: Bus;
  store: StoreEpoch & MessageStore & Pick<BlobStore, "getBlob">;
  send: (envelope: Envelope) => Promise<Reply>;
  agents: {
    find(id: AgentId): Agent | undefined;
    /** Whether this machine has the programs that the agent needs. */
    canRun(id: AgentId): boolean;
    /** End the agents' programs at once. */
    close?(): Promise<void>;
  };
  clock: Clock;
  newId: () => string;
  /** The name of this worker's node, for lists of runs. */
  name?: string | undefined;
  /** The timeout of this worker's commands, in ms; reports are repeated after it. */
  sendTimeoutMs: number;
  /** Concurrent runs, in total and per owner; `RunLimits` defines which runs count. */
  limits: Omit<RunLimitsOptions, "onRoom">;
  /** Held runs; above it the one held longest ends, and starts again when its session is resumed (rule C14). */
  maxHeld: number;
  holdTimeoutMs: number;
  /**
   * How long a run is left to workers that have its agent or the disk with its conversation, in ms: during a rolling
   * update some of them have a newer catalogue (rule C24). Then this worker takes it. Default: 0, for a single worker.
   */
  leaveToOthersMs?: number | undefined;
  /**
   * The name of this worker's disk, if workers have separate disks: this worker gets the runs of the conversations
   * stored there (rule C16). Absent: all workers share one disk.
   */
  home?: string | undefined;
  log: Logger;
  metrics: WorkerMetrics;
  /** Called when this worker has claimed a turn's run. `dueAt`: in ms of elapsed time, as run requests have it. */
  onClaimed?: (dueAt: number) => void;
  /** Traces the runs that belong to a trace. */
  tracer?: Tracer | undefined;
}

export type RunPurpose = "turn" | "summary";

export interface WorkerMetrics {
  runEnded(purpose: RunPurpose, agentId: string, outcome: string, durationMs: number, failure?: RunFailure): void;
  /** Of the runs of turns. */
  runsUnderWay(driven: number, held: number, waiting: number): void;
}

/** A run from its claim to the end of its attempt. */
interface HandledRun {
  /** The queue offered the run again meanwhile. */
  isOfferedAgain: boolean;
  /** The floor accepted this worker's claim. */
  isOurs: boolean;
  /** Signals that arrived before the attempt's driver started. */
  signals: RunSignal[];
  /** The attempt, while its driver runs. */
  drive?: Drive | undefined;
}

interface Drive {
  work: RunWork;
  driver: RunDriver;
  held?: { since: number; timer: Timer } | undefined;
}

/**
 * Takes runs from the queue and drives them. The floor accepts reports of its newest attempt only, so that a worker
 * that was considered dead changes nothing when it comes back (rules C10 to C14).
 */
export class Worker {
  readonly #options: WorkerOptions;
  /** One attempt per run at a time. */
  readonly #handled = new TransientMap<RunId, HandledRun>();
  readonly #limits: RunLimits;
  readonly #claiming: RunClaimOptions;
  #processing: Processing | undefined;
  #handedOver: Subscription | undefined;
  readonly #stopping = new AbortController();

  constructor(options: WorkerOptions) {
    this.#options = options;
    // If the queue is full or unreachable, the next sweep offers the run again.
    const onRoom = (runRequest: RunRequest) => void options.queue.add(runRequest).catch(() => {});
    this.#limits = new RunLimits({ ...options.limits, onRoom });
    const { bus, store, clock, newId, name: worker } = options;
    this.#claiming = {
      bus,
      epoch: store.epoch,
      clock,
      newId,
      worker,
      send: (runRequest, command) => this.#send(runRequest, command),
    };
  }

  async start(): Promise<void> {
    const { queue, home, bus, store } = this.#options;
    const { concurrency } = this.#limits;
    if (home !== undefined) {
      const topic = homeTopic(store.epoch, home);
      this.#handedOver = await bus.subscribe(topic, (message) => this.#receiveHandedOver(message));
    }
    this.#processing = await queue.process("run", (runRequest) => this.#handle(runRequest), { concurrency });
  }

  /**
   * Take no more runs. Active runs may end within `graceMs`; the worker then gives the rest back to their floors. Held
   * runs, summaries, and runs that no agent has begun are given back at once. A floor that stays unreachable for
   * `giveBackMs` detects the lost attempts by their missing reports.
   */
  async stop({ graceMs, giveBackMs }: { graceMs: number; giveBackMs: number }): Promise<void> {
    const { clock } = this.#options;
    this.#stopping.abort();
    this.#handedOver?.end();
    const ended = this.#processing?.stop() ?? Promise.resolve();
    for (const { driver, work } of this.#drives()) if (driver.isHeld || work.purpose) driver.giveBack(driver.isHeld);
    await within(clock, graceMs, ended);
    for (const { driver } of this.#drives()) driver.giveBack(false);
    await within(clock, giveBackMs, ended);
    for (const { driver } of this.#drives()) driver.abandon();
    // The agents' programs must not outlive this node.
    await this.#options.agents.close?.();
    await ended;
  }

  #drives(): Drive[] {
    return this.#handled.values().flatMap(({ drive }) => drive ?? []);
  }

  /** Resolves when this worker is done with the run, with any outcome. */
  async #handle(runRequest: RunRequest): Promise<void> {
    const { runId } = runRequest;
    flow.onHop?.("run", `${runId} of ${runRequest.sessionId}`);
    if (this.#stopping.signal.aborted || this.#leavesToOthers(runRequest)) return;
    const before = this.#handled.get(runId);
    if (before) {
      // A running attempt needs no second one. But the floor may have given up an attempt that is being claimed or is
      // ending.
      if (before.drive?.driver.isEnding !== false) before.isOfferedAgain = true;
      return;
    }
    if (!this.#limits.reserve(runRequest)) return;
    this.#processing?.setConcurrency(this.#limits.concurrency);
    const handled: HandledRun = { isOfferedAgain: false, isOurs: false, signals: [] };
    this.#handled.set(runId, handled);
    try {
      for (const pauseMs of PAUSES_MS) {
        if (pauseMs > 0) await sleep(this.#options.clock, pauseMs, this.#stopping.signal).catch(() => {});
        if (this.#stopping.signal.aborted || (await this.#tryToDrive(runRequest, handled, pauseMs === 0))) return;
      }
    } finally {
      this.#handled.delete(runId);
      this.#limits.release(runId);
      this.#updateLimits();
    }
  }

  /** @returns false if the floor is unreachable for now */
  async #tryToDrive(runRequest: RunRequest, handled: HandledRun, isFirst: boolean): Promise<boolean> {
    const { runId } = runRequest;
    const { bus, store, log } = this.#options;
    let subscription: Subscription | undefined;
    try {
      // Subscribe before the claim, so that no signal is missed.
      subscription = await bus.subscribe(runTopic(store.epoch, runId), (message) =>
        this.#receive(handled, runId, message),
      );
      do {
        handled.isOfferedAgain = false;
        await this.#claimAndDrive(runRequest, handled);
      } while (handled.isOfferedAgain && !this.#stopping.signal.aborted);
      return true;
    } catch (error) {
      const isPassing = !handled.isOurs && error instanceof AppError && error.code === "unavailable";
      const facts = { err: error, ...runFields(runRequest) };
      if (!isPassing) log.warn(facts, "a run could not be driven; the next sweep offers it again");
      else if (isFirst) log.warn(facts, "a run could not be claimed; the worker tries again");
      return !isPassing;
    } finally {
      subscription?.end();
    }
  }

  /** Do nothing if the floor refuses the claim. */
  async #claimAndDrive(runRequest: RunRequest, handled: HandledRun): Promise<void> {
    const { onClaimed, tracer } = this.#options;
    handled.isOurs = false;
    const task = await requestTask(runRequest, this.#claiming);
    if (!task) return;
    handled.isOurs = true;
    if (!task.purpose) onClaimed?.(runRequest.dueAt);
    await traceRun(tracer, runRequest, task, (traced) => this.#drive(traced, task, handled));
  }

  /**
   * Whether to leave the run, for a while, to workers that have its agent or the disk with its conversation. The store
   * keeps the run request, and the next sweep offers it again.
   */
  #leavesToOthers(runRequest: RunRequest): boolean {
    const { agents, clock, leaveToOthersMs = 0, home, bus, store } = this.#options;
    if (clock.now() >= runRequest.dueAt + leaveToOthersMs) return false;
    if (runRequest.home !== undefined && runRequest.home !== home) {
      void bus.publish(homeTopic(store.epoch, runRequest.home), writeMessage(runRequest));
      return true;
    }
    return !agents.canRun(runRequest.agentId);
  }

  /** Take a run that another worker passed on, because its conversation is stored on this worker's disk. */
  #receiveHandedOver(message: Uint8Array): void {
    const runRequest = readMessage(RunRequest, message);
    if (runRequest && this.#handled.size < this.#limits.concurrency) void this.#handle(runRequest);
  }

  /** @returns the outcome as this worker saw it */
  async #drive(runRequest: RunRequest, task: RunTask, handled: HandledRun): Promise<RunOutcome["kind"]> {
    const { agents, clock, metrics, store, home } = this.#options;
    const { agentId, purpose = "turn" } = task;
    const begunAt = clock.now();
    const end = (outcome: RunOutcome["kind"], failure?: Omit<RunFailure, "at" | "agentId">) => {
      const now = clock.now();
      metrics.runEnded(purpose, agentId, outcome, now - begunAt, failure && { at: now, agentId, ...failure });
      return outcome;
    };
    const found = agents.find(agentId);
    const agent = task.purpose && !found?.summarize ? undefined : found;
    const work = agent && (await readWork(store, runRequest.sessionId, task, home));
    // After its stop, the worker waits for no run that begins.
    if (!work || this.#stopping.signal.aborted) {
      const refusal = work ? GIVEN_BACK : runRefusalOf(task, agent !== undefined);
      await this.#refuse(runRequest, task, refusal);
      return end(refusal.outcome.kind, refusal.failure);
    }
    const driver = makeDriver(runRequest, this.#options, {
      agent,
      work,
      send: (command) => this.#send(runRequest, command),
      onHold: (isHeld) => this.#setHeld(drive, isHeld),
      onWait: () => this.#updateLimits(),
    });
    const drive: Drive = { work, driver };
    handled.drive = drive;
    this.#updateLimits();
    for (const signal of handled.signals.splice(0)) this.#obey(drive, signal);
    try {
      const { kind } = await driver.run();
      return end(kind, driver.failure);
    } finally {
      this.#setHeld(drive, false);
      handled.drive = undefined;
      this.#updateLimits();
    }
  }

  /** End a run without its agent. */
  async #refuse(runRequest: RunRequest, task: RunTask, { outcome, failure }: RunRefusal): Promise<void> {
    const { runId, attempt, agentId } = task;
    const { sessionId } = runRequest;
    if (failure) {
      const { errorCode: code, reason } = failure;
      this.#options.log.warn({ ...runFields(runRequest), attempt, agentId, code, reason }, "a run failed");
    }
    await this.#send(runRequest, { type: "run.report", sessionId, runId, attempt, n: 1, parts: [], outcome });
  }

  #receive(handled: HandledRun, runId: RunId, message: Uint8Array): void {
    const signal = readMessage(RunSignal, message);
    if (!signal) return;
    if (signal.signal === "who") {
      if (handled.isOurs) void this.#options.bus.publish(signal.replyTo, writeMessage({ runId }));
      return;
    }
    if (handled.drive) return this.#obey(handled.drive, signal);
    handled.signals.push(signal);
    if (handled.signals.length > MAX_SIGNALS) handled.signals.shift();
  }

  #obey(drive: Drive, signal: RunSignal): void {
    if (signal.signal === "who" || signal.attempt !== drive.work.request.attempt) return;
    if (signal.signal === "answer") drive.driver.answer(signal.answer);
    else drive.driver.obey({ verdict: signal.signal, answers: [] });
  }

  /** Held runs give their permit back: fifty paused songs must not keep a call from running (rule C14). */
  #setHeld(drive: Drive, isHeld: boolean): void {
    const { clock, maxHeld, holdTimeoutMs } = this.#options;
    drive.held?.timer.cancel();
    drive.held = undefined;
    if (isHeld) {
      const timer = clock.after(holdTimeoutMs, () => drive.driver.giveBack(true));
      drive.held = { since: clock.now(), timer };
    }
    this.#updateLimits();
    const held = this.#drives().filter((other) => other.held);
    if (held.length <= maxHeld) return;
    const oldest = held.reduce((first, other) => (other.held!.since < first.held!.since ? other : first));
    oldest.driver.giveBack(true);
  }

  /** Tell the run limits, the queue and the metrics in which state each run is. */
  #updateLimits(): void {
    let driven = 0;
    for (const [runId, { drive }] of this.#handled.entries()) {
      if (!drive) continue;
      const state = stateOf(drive);
      if (state === "running") driven += 1;
      this.#limits.set(runId, state);
    }
    this.#processing?.setConcurrency(this.#limits.concurrency);
    this.#options.metrics.runsUnderWay(driven, this.#limits.count("held"), this.#limits.count("waiting"));
  }

  #send({ floorId, trace }: RunRequest, command: Command): Promise<Reply> {
    const { send, newId, clock, sendTimeoutMs } = this.#options;
    const timeoutAt = clock.now() + sendTimeoutMs;
    // `run.still` repeats often and changes nothing, so traces leave it out.
    const part = trace !== undefined && command.type !== "run.still" && { trace };
    return send({ floorId, commandId: newId(), bodyHash: "", timeoutAt, command, ...part });
  }
}

const stateOf = ({ work, held, driver }: Drive): RunState =>
  work.purpose ?? (held ? "held" : driver.isWaiting ? "waiting" : "running");
