// Rule C36 of docs/inside/correctness.md.
import type { Webhook } from "../config/webhooks-file.ts";
import { LogThrottle } from "../shared/log-throttle.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { backoffMs, every, within } from "../shared/waiting.ts";
import type { ClaimedNotice, DisabledHook, NoticeStore } from "../store/store.ts";
import { disabledSince, receiverOf } from "./disabled.ts";
import { GONE, type SendResult } from "./sender.ts";
import type { SentMessage } from "./signature.ts";

/** How often each hook is looked through for what is due, in ms: for retries, and for what a lost node left. */
const POLL_MS = 2_000;
/** How often the bounds are checked, in ms. */
const SWEEP_MS = 30_000;
/** Notices of one hook that are sent at once. A slow receiver delays its own hook only. */
const CONCURRENCY = 8;
/** How much longer than a request a node keeps a lane, in ms: for writing the outcome. */
const OUTCOME_MS = 3_000;
/** The pauses between two attempts, in ms, and for how long after its event a notice is tried. */
const PAUSES = { firstMs: 5_000, maxMs: 3_600_000 };
const DAY_MS = 86_400_000;
/** Notices that wait for one receiver. Beyond it the oldest are dropped. */
const MAX_PENDING = 10_000;
/** Notices that are dropped with one statement. */
const DROP_PAGE = 5_000;

/** What became of notices. */
export type NoticeOutcome = "accepted" | "failed" | "dropped";

export interface CourierOptions {
  store: NoticeStore;
  /** Its time is the floors'. */
  clock: Clock;
  webhooks: () => ReadonlyMap<string, Webhook>;
  /** Never rejects. */
  send: (hook: Webhook, message: SentMessage, stopping: AbortSignal) => Promise<SendResult>;
  newId: () => string;
  /** A random number from 0 (inclusive) to 1. */
  random: () => number;
  onOutcome: (hook: string, outcome: NoticeOutcome, count: number) => void;
  log: Logger;
}

/** What the courier does for one hook. */
interface Round {
  isClaiming: boolean;
  /** Something may be due that the last look did not see. */
  isWanted: boolean;
  sending: number;
  failures: LogThrottle;
}

/**
 * Sends the notices of webhooks. The store keeps a notice until it was accepted or dropped. A node claims a lane for as
 * long as a request may last, so that one node at a time sends, and whatever a lost node had claimed is sent again.
 */
export class Courier {
  readonly #options: CourierOptions;
  readonly #rounds = new Map<string, Round>();
  readonly #sends = new Set<Promise<void>>();
  readonly #claims = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #storeNotes = new LogThrottle();
  #poll: Timer | undefined;
  #sweep: Timer | undefined;
  #sweeping: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: CourierOptions) {
    this.#options = options;
  }

  start(): void {
    const { clock } = this.#options;
    this.#poll = every(clock, POLL_MS, () => this.#lookAround());
    this.#sweep = every(clock, SWEEP_MS, () => {
      this.#sweeping = this.sweep();
      return this.#sweeping;
    });
    this.#lookAround();
  }

  /** End the requests in progress, after at most `patienceMs`. What was not accepted is sent by the next node. */
  async stop(patienceMs: number): Promise<void> {
    this.#isStopped = true;
    this.#poll?.cancel();
    this.#sweep?.cancel();
    await Promise.all([this.#sweeping, ...this.#claims]);
    await within(this.#options.clock, patienceMs, Promise.all(this.#sends));
    this.#stopping.abort();
    await Promise.all(this.#sends);
  }

  /** Notices of this hook were committed. */
  wake(hook: string): void {
    const round = this.#roundOf(hook);
    round.isWanted = true;
    if (round.isClaiming || this.#isStopped) return;
    const claim = this.#claim(hook, round).finally(() => this.#claims.delete(claim));
    this.#claims.add(claim);
  }

  #lookAround(): void {
    const { webhooks } = this.#options;
    for (const name of webhooks().keys()) this.wake(name);
    for (const [name, round] of this.#rounds)
      if (!webhooks().has(name) && round.sending === 0 && !round.isClaiming) this.#rounds.delete(name);
  }

  /** Claim what is due, as many lanes as may be sent to at once, and begin to send. Never rejects. */
  async #claim(name: string, round: Round): Promise<void> {
    const { store, clock, webhooks, newId } = this.#options;
    round.isClaiming = true;
    try {
      while (round.isWanted && !this.#isStopped) {
        round.isWanted = false;
        const hook = webhooks().get(name);
        const limit = CONCURRENCY - round.sending;
        // The end of a request looks again.
        if (!hook || limit <= 0) return;
        const now = clock.now();
        const until = now + hook.timeoutMs + OUTCOME_MS;
        const claimed = await store.claimNotices({
          ...{ hook: name, receiver: receiverOf(hook), claim: newId() },
          ...{ now, until, limit },
        });
        for (const notice of claimed) this.#begin(hook, notice, until, round);
      }
    } catch (error) {
      this.#noteStoreFault(error);
    } finally {
      round.isClaiming = false;
    }
  }

  #roundOf(name: string): Round {
    let round = this.#rounds.get(name);
    if (!round) {
      round = { isClaiming: false, isWanted: false, sending: 0, failures: new LogThrottle() };
      this.#rounds.set(name, round);
    }
    return round;
  }

  #begin(hook: Webhook, notice: ClaimedNotice, until: number, round: Round): void {
    round.sending += 1;
    const sent = this.#deliver(hook, notice, until, round)
      .catch((error) => this.#noteStoreFault(error))
      .finally(() => {
        this.#sends.delete(sent);
        round.sending -= 1;
        this.wake(hook.name);
      });
    this.#sends.add(sent);
  }

  async #deliver(hook: Webhook, notice: ClaimedNotice, until: number, round: Round): Promise<void> {
    const { store, clock, send, random, onOutcome, log } = this.#options;
    // This process stood still, and another node may have claimed the lane meanwhile.
    if (clock.now() > until - hook.timeoutMs) return;
    const result = await send(hook, notice, this.#stopping.signal);
    const now = clock.now();
    if (result.isAccepted) {
      await store.settleNotice(notice, now);
      return onOutcome(hook.name, "accepted", 1);
    }
    const { reason, status, retryAfterMs = 0 } = result;
    if (this.#stopping.signal.aborted) {
      return store.settleNotice(notice, now, { dueAt: now, failures: notice.failures, reason });
    }
    onOutcome(hook.name, "failed", 1);
    const failures = notice.failures + 1;
    const facts = { hook: hook.name, notice: notice.id, about: notice.subject, reason, failures };
    const isGone = status === GONE;
    if (isGone && (await store.disableHook({ hook: hook.name, receiver: receiverOf(hook), at: now })))
      log.warn(facts, "a webhook's receiver is gone; the webhook is disabled until an operator enables it");
    if (now - notice.at >= DAY_MS) {
      await store.settleNotice(notice, now);
      onOutcome(hook.name, "dropped", 1);
      return log.warn(facts, "a notice was not accepted for a day, and is dropped");
    }
    // Due at once when the webhook is enabled.
    if (isGone) return await store.settleNotice(notice, now, { dueAt: now, failures, reason });
    const pauseMs = Math.max(backoffMs(failures, PAUSES, random), Math.min(retryAfterMs, PAUSES.maxMs));
    if (round.failures.isDue(now))
      log.warn({ ...facts, againInMs: pauseMs }, "a webhook's receiver accepts no notices");
    await store.settleNotice(notice, now, { dueAt: now + pauseMs, failures, reason });
  }

  /**
   * Drop what is beyond a hook's bound, and what is a day old of a hook that is disabled, or that this node's file does
   * not name. Never rejects.
   */
  async sweep(): Promise<void> {
    const { store, clock, webhooks } = this.#options;
    try {
      const backlogs = await store.countNotices();
      if (backlogs.length === 0) return;
      const disabled = await store.disabledHooks();
      for (const { hook, pending } of backlogs) {
        const now = clock.now();
        const unsent = whyUnsent(hook, webhooks(), disabled);
        if (unsent !== undefined) await this.#drop(hook, { before: now - DAY_MS, keep: 0 }, unsent);
        if (pending <= MAX_PENDING) continue;
        const why = "too many notices wait for a receiver; the oldest are dropped";
        await this.#drop(hook, { before: now + 1, keep: MAX_PENDING }, why);
      }
    } catch (error) {
      this.#noteStoreFault(error);
    }
  }

  async #drop(hook: string, which: { before: number; keep: number }, why: string): Promise<void> {
    const { store, clock, onOutcome, log } = this.#options;
    const dropped = await store.dropNotices({ hook, ...which, now: clock.now(), limit: DROP_PAGE });
    if (dropped === 0) return;
    onOutcome(hook, "dropped", dropped);
    log.warn({ hook, dropped }, why);
  }

  #noteStoreFault(error: unknown): void {
    const { clock, log } = this.#options;
    if (!this.#storeNotes.isDue(clock.now())) return;
    log.warn({ err: error }, "the store did not answer about notices of webhooks; they are looked for again");
  }
}

/** Why nothing is sent for a hook, as the log says it of what is dropped; undefined if it is sent. */
function whyUnsent(
  name: string,
  webhooks: ReadonlyMap<string, Webhook>,
  disabled: readonly DisabledHook[],
): string | undefined {
  const hook = webhooks.get(name);
  if (!hook) return "no webhook has the name of these notices, which are dropped";
  if (disabledSince(hook, disabled) === undefined) return undefined;
  return "the webhook of these notices is disabled, and they are dropped";
}
