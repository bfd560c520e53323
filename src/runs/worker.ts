import type { Agent, Turn } from "../agents/agent.ts";
import type { Bus, Unsubscribe } from "../bus/bus.ts";
import type { Processing, RunQueue } from "../bus/run-queue.ts";
import { readMessage } from "../protocol/bus-message.ts";
import { type Clock, sleep, type Timer } from "../protocol/clock.ts";
import type { Command, Envelope } from "../protocol/command.ts";
import type { RunEffect } from "../protocol/effect.ts";
import { AppError } from "../protocol/errors.ts";
import { envelopeJson } from "../protocol/event.ts";
import { dataFrame, encodeFloorMessage, floorTopic, runTopic } from "../protocol/floor-message.ts";
import type { AgentId, RunId, SessionId } from "../protocol/ids.ts";
import { type Logger, withFacts } from "../protocol/logger.ts";
import type { Message } from "../protocol/message.ts";
import type { Reply } from "../protocol/reply.ts";
import { type RunOutcome, RunSignal, type RunTask } from "../protocol/run.ts";
import { type Tracer, traceIdOf } from "../protocol/tracer.ts";
import type { Store } from "../store/store.ts";
import { RunDriver } from "./run-driver.ts";

/** Messages of the conversation that an agent is given. */
const HISTORY_MESSAGES = 200;
/** How long a driver of the run has to say that it drives it, in ms (rule C10). */
const WHO_DRIVES_MS = 250;
/** Before each try to take a run whose floor cannot be asked, in ms; after the last it waits for the next sweep. */
const PAUSES_MS = [0, 250, 500, 1_000, 1_000, 1_000];
/** Words on an attempt that are kept until it is driven; the last ones say what is wanted of it. */
const MAX_HEARD = 16;

export interface WorkerOptions {
  queue: RunQueue;
  bus: Bus;
  store: Pick<Store, "epoch" | "listMessages" | "findMessage" | "getBlob">;
  ask: (envelope: Envelope) => Promise<Reply>;
  agents: { find(id: AgentId): Agent | undefined };
  clock: Clock;
  newId: () => string;
  /** An ask of this worker is given up after so long, in ms; reports are repeated. */
  askTimeoutMs: number;
  /** Runs under way at a time, those that are held not counted. */
  concurrency: number;
  /** Runs that may be held; over it the one held longest is ended, to start again when it is resumed (rule C14). */
  maxHeld: number;
  holdTimeoutMs: number;
  /**
   * How long a run whose agent this worker does not know is left to workers that do, in ms: while releases change, some
   * have a newer catalogue (rule C24). Then it fails. Default: 0, where there is no other worker.
   */
  lackingMs?: number | undefined;
  log: Logger;
  metrics: WorkerMetrics;
  /** A run was given to this worker, so many ms after a worker was wished for. */
  onTaken?: (waitMs: number) => void;
  /** For runs that are part of something. */
  tracer?: Tracer | undefined;
}

export interface WorkerMetrics {
  runEnded(agentId: string, outcome: string, durationMs: number): void;
  runsUnderWay(count: number, held: number): void;
}

/** A run from the moment it is taken until its attempt is over. */
interface Taken {
  /** It was wished for again meanwhile. */
  isWishedAgain: boolean;
  /** The floor gave it to this worker. */
  isOurs: boolean;
  /** Words on the attempt that came before its agent was started. */
  heard: RunSignal[];
}

interface Drive {
  effect: RunEffect;
  attempt: number;
  driver: RunDriver;
  held?: { since: number; timer: Timer } | undefined;
}

/**
 * Takes runs from the queue and drives them. What it says counts only while its attempt is the floor's newest, so that
 * a worker that was given up for dead changes nothing when it comes back (rules C10 to C14).
 */
export class Worker {
  readonly #options: WorkerOptions;
  /** By run: one attempt of a run at a time. */
  readonly #drives = new Map<RunId, Drive>();
  readonly #taken = new Map<RunId, Taken>();
  #processing: Processing | undefined;
  #isStopping = false;
  readonly #stopping = Promise.withResolvers<void>();

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { queue, concurrency } = this.#options;
    this.#processing = await queue.process("run", (effect) => this.#take(effect), { concurrency });
  }

  /**
   * Take no more. What runs may come to its end for so long; then it is given back to its floor. What is held gives its
   * place back at once. A floor that does not take it within `giveBackMs` finds out by silence.
   */
  async stop({ graceMs, giveBackMs }: { graceMs: number; giveBackMs: number }): Promise<void> {
    const { clock } = this.#options;
    this.#isStopping = true;
    this.#stopping.resolve();
    const ended = this.#processing?.stop() ?? Promise.resolve();
    for (const { driver } of this.#drives.values()) if (driver.isHeld) driver.giveBack(true);
    await Promise.race([ended, sleep(clock, graceMs)]);
    for (const { driver } of this.#drives.values()) driver.giveBack(false);
    await Promise.race([ended, sleep(clock, giveBackMs)]);
    for (const { driver } of this.#drives.values()) driver.abandon();
    await ended;
  }

  /** Resolves when the run needs this worker no more, whatever became of it. */
  async #take(effect: RunEffect): Promise<void> {
    const { runId } = effect;
    if (this.#isStopping || this.#leavesToOthers(effect)) return;
    const before = this.#taken.get(runId);
    if (before) {
      // While its attempt goes on there is none to be had. One that is being claimed, or is ending, the floor may have
      // given up already.
      if (this.#drives.get(runId)?.driver.isEnding !== false) before.isWishedAgain = true;
      return;
    }
    const taken: Taken = { isWishedAgain: false, isOurs: false, heard: [] };
    this.#taken.set(runId, taken);
    try {
      for (const pauseMs of PAUSES_MS) {
        if (pauseMs > 0) await Promise.race([sleep(this.#options.clock, pauseMs), this.#stopping.promise]);
        if (this.#isStopping || (await this.#tryToTake(effect, taken, pauseMs === 0))) return;
      }
    } finally {
      this.#taken.delete(runId);
    }
  }

  /** @returns false when its floor could not be asked: it may be there again soon */
  async #tryToTake(effect: RunEffect, taken: Taken, isFirst: boolean): Promise<boolean> {
    const { runId } = effect;
    const { bus, store, clock, log, onTaken } = this.#options;
    let unsubscribe: Unsubscribe | undefined;
    try {
      // Before the claim, so that no word on the attempt is missed.
      unsubscribe = await bus.subscribe(runTopic(store.epoch, runId), (message) => this.#hear(runId, message));
      do {
        taken.isWishedAgain = false;
        taken.isOurs = false;
        const task = await this.#claim(effect);
        taken.isOurs = task !== undefined;
        if (!task) continue;
        onTaken?.(Math.max(0, clock.now() - effect.dueAt));
        await this.#driveTraced(effect, task);
      } while (taken.isWishedAgain && !this.#isStopping);
      return true;
    } catch (error) {
      const isPassing = !taken.isOurs && error instanceof AppError && error.code === "unavailable";
      if (isFirst || !isPassing) {
        log.warn({ err: error, ...factsOf(effect) }, "a run could not be taken; it is tried again");
      }
      return !isPassing;
    } finally {
      unsubscribe?.();
    }
  }

  /** The store still has the wish, and the next sweep offers it to whoever is free. */
  #leavesToOthers({ agentId, dueAt }: RunEffect): boolean {
    const { agents, clock, lackingMs = 0 } = this.#options;
    return clock.now() < dueAt + lackingMs && agents.find(agentId) === undefined;
  }

  async #claim(effect: RunEffect): Promise<RunTask | undefined> {
    const { sessionId, runId } = effect;
    const claimId = this.#options.newId();
    const claim = { type: "run.claim" as const, sessionId, runId, claimId };
    let reply = await this.#ask(effect, { ...claim, asked: false });
    if (reply.ok && reply.isClaimed && !(await this.#isDriven(runId))) {
      reply = await this.#ask(effect, { ...claim, asked: true });
    }
    return reply.ok ? reply.task : undefined;
  }

  /** Whether some worker says that it drives the run. */
  async #isDriven(runId: RunId): Promise<boolean> {
    const { bus, store, newId, clock } = this.#options;
    const replyTo = `driver.${newId()}`;
    const answered = Promise.withResolvers<boolean>();
    const unsubscribe = await bus.subscribe(replyTo, () => answered.resolve(true));
    await bus.publish(runTopic(store.epoch, runId), encode({ signal: "who", replyTo } satisfies RunSignal));
    const silence = clock.after(WHO_DRIVES_MS, () => answered.resolve(false));
    try {
      return await answered.promise;
    } finally {
      silence.cancel();
      unsubscribe();
    }
  }

  async #driveTraced(effect: RunEffect, task: RunTask): Promise<void> {
    const { tracer } = this.#options;
    const { trace, sessionId, runId } = effect;
    if (!tracer || trace === undefined) return void (await this.#drive(effect, task));
    const span = tracer.begin("run", "run", trace, {
      "interlock.floor.id": effect.floorId,
      "interlock.session.id": sessionId,
      "interlock.run.id": runId,
      "interlock.agent": task.agentId,
      "interlock.attempt": task.attempt,
    });
    let outcome: RunOutcome["kind"] = "lost";
    try {
      outcome = await this.#drive({ ...effect, trace: span.trace }, task);
    } finally {
      span.end({ "interlock.outcome": outcome }, outcome === "failed" || outcome === "lost" ? outcome : undefined);
    }
  }

  /** @returns how it ended, as this worker saw it */
  async #drive(effect: RunEffect, task: RunTask): Promise<RunOutcome["kind"]> {
    const { agents, bus, store, clock, newId, log, metrics } = this.#options;
    const { sessionId, floorId } = effect;
    const { attempt, agentId } = task;
    const begunAt = clock.now();
    const about = { sessionId, runId: task.runId, attempt };
    const agent = agents.find(agentId);
    const turn = agent && (await this.#turnOf(sessionId, task));
    if (!turn) {
      const message = agent ? "The message of this run is gone." : `Invalid agent ID: ${agentId}`;
      const outcome = {
        kind: "failed" as const,
        code: agent ? ("internal" as const) : ("agent_not_found" as const),
        message,
      };
      await this.#ask(effect, { type: "run.report", ...about, n: 1, parts: [], outcome });
      return outcome.kind;
    }
    const topic = floorTopic(store.epoch, floorId);
    const drive: Drive = {
      effect,
      attempt,
      driver: new RunDriver({
        agent,
        turn,
        sessionId,
        clock,
        newId,
        log: withFacts(log, { ...factsOf(effect), attempt }),
        ask: (command) => this.#ask(effect, command),
        loadImage: async ({ hash }) => {
          const blob = await store.getBlob(sessionId, hash);
          if (!blob) throw new AppError("not_found", "The image is gone.");
          return blob.bytes;
        },
        stream: (delta) => {
          // Whoever reads later finds the text in the store.
          if (!bus.isHeard(topic)) return;
          const json = JSON.stringify(delta);
          const frame = dataFrame(envelopeJson({ type: "delta", json, at: clock.now(), sessionId }));
          void bus.publish(topic, encodeFloorMessage({ kind: "delta", floorId, sessionId, frame }));
        },
        onHold: (isHeld) => this.#setHeld(drive, isHeld),
      }),
    };
    this.#drives.set(task.runId, drive);
    this.#count();
    for (const signal of this.#taken.get(task.runId)?.heard.splice(0) ?? []) this.#obey(drive, signal);
    try {
      const outcome = await drive.driver.run();
      metrics.runEnded(agentId, outcome, clock.now() - begunAt);
      return outcome;
    } finally {
      this.#setHeld(drive, false);
      this.#drives.delete(task.runId);
      this.#count();
    }
  }

  /**
   * The conversation up to the message that is to be answered: what was said while it waited stands behind it in the
   * store, and so does what earlier attempts of this run said.
   */
  async #turnOf(sessionId: SessionId, task: RunTask): Promise<Turn | undefined> {
    const { store } = this.#options;
    const { runId, attempt, messageId, providerSessionId, workspaceId, approvedTools } = task;
    const input = await store.findMessage(sessionId, messageId);
    const page = input && (await store.listMessages(sessionId, { before: messageId, limit: HISTORY_MESSAGES }));
    const later = input && (await store.listMessages(sessionId, { after: messageId, limit: HISTORY_MESSAGES }));
    if (!input || !page || !later) return undefined;
    const said = later.messages.filter(({ role }) => role !== "user");
    const history = inTurn([...page.messages, ...said]);
    return { runId, attempt, sessionId, workspaceId, input, history, providerSessionId, approvedTools };
  }

  #hear(runId: RunId, message: Uint8Array): void {
    const taken = this.#taken.get(runId);
    const signal = readMessage(RunSignal, message);
    if (!taken || !signal) return;
    if (signal.signal === "who") {
      if (taken.isOurs) void this.#options.bus.publish(signal.replyTo, encode({ runId }));
      return;
    }
    const drive = this.#drives.get(runId);
    if (drive) return this.#obey(drive, signal);
    taken.heard.push(signal);
    if (taken.heard.length > MAX_HEARD) taken.heard.shift();
  }

  #obey(drive: Drive, signal: RunSignal): void {
    if (signal.signal === "who" || signal.attempt !== drive.attempt) return;
    if (signal.signal === "answer") drive.driver.answer(signal.answer);
    else drive.driver.obey({ standing: signal.signal, answers: [] });
  }

  /** Held runs give their place back: fifty held songs must not keep a call from running (rule C14). */
  #setHeld(drive: Drive, isHeld: boolean): void {
    const { clock, maxHeld, holdTimeoutMs } = this.#options;
    drive.held?.timer.cancel();
    drive.held = undefined;
    if (isHeld) {
      const timer = clock.after(holdTimeoutMs, () => drive.driver.giveBack(true));
      drive.held = { since: clock.now(), timer };
    }
    this.#count();
    const held = [...this.#drives.values()].filter((other) => other.held);
    if (held.length <= maxHeld) return;
    const oldest = held.reduce((first, other) => (other.held!.since < first.held!.since ? other : first));
    oldest.driver.giveBack(true);
  }

  #count(): void {
    const held = [...this.#drives.values()].filter((drive) => drive.held).length;
    this.#processing?.setConcurrency(this.#options.concurrency + held);
    this.#options.metrics.runsUnderWay(this.#drives.size - held, held);
  }

  #ask({ floorId, trace }: RunEffect, command: Command): Promise<Reply> {
    const { ask, newId, clock, askTimeoutMs } = this.#options;
    const deadline = clock.now() + askTimeoutMs;
    // Whether a run is still wanted is asked again and again, and comes to nothing: no trace need show it.
    const part = trace !== undefined && command.type !== "run.still" && { trace };
    return ask({ floorId, commandId: newId(), bodyHash: "", deadline, command, ...part });
  }
}

/** Answers behind what they answer, also where another message came between. */
function inTurn(messages: readonly Message[]): Message[] {
  const first = new Map<string, number>();
  for (const [index, { runId }] of messages.entries()) {
    if (runId !== undefined && !first.has(runId)) first.set(runId, index);
  }
  const places = new Map(messages.map((message, index) => [message, first.get(message.runId ?? "") ?? index]));
  return messages.toSorted((one, other) => places.get(one)! - places.get(other)!);
}

/** What a log tells of a run. */
const factsOf = ({ floorId, sessionId, runId, trace }: RunEffect): object => {
  return { floorId, sessionId, runId, ...(trace !== undefined && { traceId: traceIdOf(trace) }) };
};

const encoder = new TextEncoder();
const encode = (value: unknown): Uint8Array => encoder.encode(JSON.stringify(value));
