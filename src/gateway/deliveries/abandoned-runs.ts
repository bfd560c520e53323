// Rule C32 of docs/inside/correctness.md.
import { z } from "zod";
import type { Bus } from "../../bus/bus.ts";
import { FloorId, RunId, SessionId } from "../../protocol/ids.ts";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import { TransientMap } from "../../shared/transient-map.ts";
import type { Caller } from "../access/caller.ts";
import type { Delivery } from "./delivery.ts";
import { NewsTopic } from "./news-topic.ts";
import { LOST_MS } from "./recent-requests.ts";

/** How long a run goes on whose client cannot have read its stream, in ms. Browsers send its request again at once. */
const UNREAD_MS = 3_000;
/** How long a request waits for the hanging up that its client may have sent before it, in ms. */
const HANG_UP_MS = 100;
/** Runs that go on without their clients. Beyond it, the one that was left first is ended. */
const MAX_RUNS = 1_024;

const Address = z.object({ runId: RunId, sessionId: SessionId, floorId: FloorId });
type Address = z.infer<typeof Address>;

const News = z.union([
  z.object({ left: Address, callerId: z.string(), commandId: z.string(), untilMs: z.number() }),
  /** A client waits for it again, or it was ended. */
  z.object({ over: RunId, isEnded: z.boolean() }),
]);
type News = z.infer<typeof News>;

interface CallerRequest {
  caller: Caller;
  /** The key of the request. */
  commandId: string;
}

/** Who waits for the answer of a run. */
export interface WaitingClient extends CallerRequest {
  /** Whether the answer arrives, if that is watched. */
  delivery: Pick<Delivery, "arrive"> | undefined;
}

/**
 * How a client's wait ended: it has an answer; it hung up to stop the run; it hung up without an answer, or without
 * having read a word of its stream.
 */
export type WaitEnd = "answered" | "stopped" | "left" | "unread";

/** A run for whose answer clients wait. */
interface AwaitedRun {
  clients: number;
  callerId: string;
  /** The key of the request that began the run. */
  commandId: string;
  /** Resolves when no client waits any more, and what that means for the run has happened. */
  over: PromiseWithResolvers<void>;
}

/** A run whose client has hung up, and may ask for its answer again. */
interface AbandonedRun {
  address: Address;
  callerId: string;
  /** The key of the request that began the run, which does not end it when it is repeated. */
  commandId: string;
  until: number;
  /** Absent: another node ends the run. */
  own?: { client: WaitingClient; timer: Timer } | undefined;
}

export interface AbandonedRunsOptions {
  bus: Bus;
  /** It measures elapsed time, and never jumps. */
  clock: Clock;
  /** The store's name, which separates the topics of installations. */
  epoch: string;
  log: Logger;
  /** Has no effect on a run that has ended. */
  abort: (caller: Caller, address: Address) => Promise<void>;
}

/**
 * Lets a run go on for as long as its client may ask for its answer again, after the client hung up without one. Then
 * the run ends; and at once, if its caller asks the session for something else.
 */
export class AbandonedRuns {
  readonly #options: AbandonedRunsOptions;
  readonly #topic: NewsTopic<News>;
  /** The runs for whose answers clients wait here. */
  readonly #waiting = new TransientMap<RunId, AwaitedRun>();
  /** The same by their sessions. */
  readonly #sessions = new TransientMap<SessionId, AwaitedRun[]>();
  readonly #left = new TransientMap<RunId, AbandonedRun>();
  #isClosed = false;

  constructor(options: AbandonedRunsOptions) {
    this.#options = options;
    const { bus, epoch, clock } = options;
    const receive = (news: News) => this.#receive(news);
    this.#topic = new NewsTopic({ bus, topic: `${epoch}.left`, schema: News, clock, receive });
  }

  /**
   * A client waits for the answer of a run.
   * @returns call it once, when the client waits no more
   */
  wait(client: WaitingClient, { runId, sessionId, floorId }: Address): (end: WaitEnd) => void {
    if (this.#left.has(runId)) this.#forget(runId, false);
    const run = this.#waiting.get(runId) ?? this.#await(client, runId, sessionId);
    run.clients += 1;
    return (end) => {
      run.clients -= 1;
      if (run.clients > 0) return;
      this.#waiting.delete(runId);
      const address = { runId, sessionId, floorId };
      if (end === "left") this.#leave(client, address, LOST_MS);
      if (end === "unread") this.#leave(client, address, UNREAD_MS);
      const aborted = end === "stopped" ? this.#abort(client.caller, address) : Promise.resolve();
      void aborted.then(() => this.#over(run, sessionId));
    };
  }

  #await({ caller, commandId }: WaitingClient, runId: RunId, sessionId: SessionId): AwaitedRun {
    const run: AwaitedRun = { clients: 0, callerId: caller.id, commandId, over: Promise.withResolvers() };
    this.#waiting.set(runId, run);
    this.#sessions.set(sessionId, [...(this.#sessions.get(sessionId) ?? []), run]);
    return run;
  }

  #over(run: AwaitedRun, sessionId: SessionId): void {
    run.over.resolve();
    const others = this.#sessions.get(sessionId)?.filter((each) => each !== run) ?? [];
    if (others.length > 0) this.#sessions.set(sessionId, others);
    else this.#sessions.delete(sessionId);
  }

  /**
   * End the runs of a session that its caller has left, because it asks for something else. A client that hangs up and
   * asks at once may be heard in the other order, so its request waits a moment for the end of the one before.
   */
  async endFor(request: CallerRequest, sessionId: SessionId): Promise<void> {
    const others = (this.#sessions.get(sessionId) ?? []).filter(
      ({ callerId, commandId }) => callerId === request.caller.id && commandId !== request.commandId,
    );
    if (others.length > 0) await this.#untilOver(others);
    const ended = this.#leftIn(request, sessionId);
    await Promise.all(ended.map(({ address }) => this.#end(request.caller, address)));
  }

  /** The same where the caller itself ends them. */
  forgetFor(request: CallerRequest, sessionId: SessionId): void {
    for (const { address } of this.#leftIn(request, sessionId)) this.#forget(address.runId, true);
  }

  /** The runs go on: their clients may ask another node. */
  close(): void {
    this.#isClosed = true;
    this.#topic.close();
    for (const { own } of this.#left.values()) own?.timer.cancel();
  }

  #leftIn({ caller, commandId }: CallerRequest, sessionId: SessionId): AbandonedRun[] {
    if (this.#left.size === 0) return [];
    const now = this.#options.clock.now();
    return this.#left.values().filter(({ callerId, commandId: begunBy, address, until, own }) => {
      if (until < now && !own) this.#left.delete(address.runId);
      return callerId === caller.id && address.sessionId === sessionId && until >= now && begunBy !== commandId;
    });
  }

  async #untilOver(runs: readonly AwaitedRun[]): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = this.#options.clock.after(HANG_UP_MS, late.resolve);
    await Promise.race([late.promise, Promise.all(runs.map(({ over }) => over.promise))]);
    timer.cancel();
  }

  #leave(client: WaitingClient, address: Address, untilMs: number): void {
    if (this.#isClosed) return;
    const { caller, commandId } = client;
    const timer = this.#options.clock.after(untilMs, () => void this.#end(caller, address));
    this.#add({ address, callerId: caller.id, commandId, own: { client, timer } }, untilMs);
    this.#topic.publish({ left: address, callerId: caller.id, commandId, untilMs });
  }

  #add(run: Omit<AbandonedRun, "until">, untilMs: number): void {
    if (this.#left.size >= MAX_RUNS) {
      const [oldest] = this.#left.values();
      const { address, own } = oldest!;
      if (own) void this.#end(own.client.caller, address);
      else this.#left.delete(address.runId);
    }
    this.#left.set(run.address.runId, { ...run, until: this.#options.clock.now() + untilMs });
  }

  #end(caller: Caller, address: Address): Promise<void> {
    this.#forget(address.runId, true);
    return this.#abort(caller, address);
  }

  async #abort(caller: Caller, address: Address): Promise<void> {
    const { abort, log } = this.#options;
    await abort(caller, address).catch((error) => log.warn({ err: error, ...address }, "a run could not be ended"));
  }

  /** @param isEnded the run ends, so that an equal request is a new one */
  #forget(runId: RunId, isEnded: boolean): void {
    this.#drop(runId, isEnded);
    this.#topic.publish({ over: runId, isEnded });
  }

  #drop(runId: RunId, isEnded: boolean): void {
    const { own } = this.#left.get(runId) ?? {};
    this.#left.delete(runId);
    own?.timer.cancel();
    if (isEnded) own?.client.delivery?.arrive();
  }

  #receive(news: News): void {
    if ("over" in news) return this.#drop(news.over, news.isEnded);
    const { left: address, callerId, commandId, untilMs } = news;
    // The repeat was faster than the news.
    if (this.#waiting.has(address.runId)) return this.#forget(address.runId, false);
    this.#add({ address, callerId, commandId }, untilMs);
  }
}
