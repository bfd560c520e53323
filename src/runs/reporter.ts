// Rules C12 and C13 of docs/inside/correctness.md.
import { AppError, type ErrorCode } from "../protocol/errors.ts";
import type { RequestId, RunId, SessionId } from "../protocol/ids.ts";
import type { Command } from "../protocol/internal/command.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import type { Directive, ReportPart, RunOutcome } from "../protocol/internal/run.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import { backoffMs, sleep } from "../shared/waiting.ts";

/** The longest delay of a part's report, in ms. */
const REPORT_AFTER_MS = 250;
/** A report is sent at once when this much text waits, in UTF-16 units. */
const REPORT_AT_UNITS = 4_096;
/** Unacknowledged parts, in UTF-16 units; above it the driver stops pulling the agent (rule C12). */
const MAX_UNACKNOWLEDGED_UNITS = 262_144;
/** The largest report, in UTF-16 units and in parts. */
const MAX_REPORT_UNITS = 32_768;
const MAX_REPORT_PARTS = 500;
/**
 * How old the floor's word may be for an act, in ms, counted from the question that it answers. A worker that was
 * frozen may have read an older one: its run goes to another worker after two seconds at the earliest (rule C11).
 */
const FRESH_MS = 1_000;
/** How often a silent attempt asks whether it is still wanted, in ms (rule C13). */
const STILL_AFTER_MS = 5_000;
/** The same while it is held or waits for an answer. */
const STILL_WAITING_MS = 1_000;
/** The pauses between two tries of a report. */
const RETRIES = { firstMs: 100, maxMs: 5_000 };
/** The number of errors other than `unavailable` and `busy` after which the reporter gives up. */
const MAX_FAULTS = 5;

export interface ReporterOptions {
  sessionId: SessionId;
  runId: RunId;
  attempt: number;
  clock: Clock;
  /** Sends a command to the session's floor; rejects with an `AppError` if the floor is unreachable. */
  send: (command: Command) => Promise<Reply>;
  /** Called with each of the floor's decisions about the attempt. */
  onDirective: (directive: Directive) => void;
  /** Called when the reporter has given up: the floor accepts no report of this attempt. */
  onLost: (error: unknown) => void;
}

/**
 * The agent no longer needs the answer to a question. It waits in order with the parts, so it comes in a later report
 * than the question. It is sent outside the parts: see `ReportPart`.
 */
interface Withdrawal {
  kind: "withdraw";
  requestId: RequestId;
}

/** The agent tries again after a failure. It is sent outside the parts too: lists of runs alone show it. */
interface Retry {
  kind: "retry";
  after: ErrorCode;
  delayMs: number;
}

/** What waits for its report, and its size in UTF-16 units. */
interface WaitingPart {
  part: ReportPart | Withdrawal | Retry;
  units: number;
}

/**
 * Sends an attempt's reports to its floor: numbered, in order, one in flight, repeated until acknowledged (rule C12).
 * Between reports it asks whether the attempt is still wanted (rule C13).
 */
export class Reporter {
  readonly #options: ReporterOptions;
  #waiting: WaitingPart[] = [];
  #waitingSince = 0;
  #units = 0;
  #outcome: RunOutcome | undefined;
  #n = 0;
  #lastWordAt: number;
  #isUrgent = false;
  #isBusy = false;
  #isClosed = false;
  #isPatient = true;
  #timer: { at: number; timer: Timer } | undefined;
  #room: PromiseWithResolvers<void> | undefined;
  /**
   * Parts that were added, and those of them that the floor has acknowledged. A piece that extends a part counts with
   * it.
   */
  #added = 0;
  #acknowledged = 0;
  /** The number of the newest report that was answered, and when the newest answer was asked for. */
  #answered = 0;
  #askedAt: number;
  #progress = Promise.withResolvers<void>();
  readonly #finished = Promise.withResolvers<void>();

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#lastWordAt = options.clock.now();
    this.#askedAt = this.#lastWordAt;
    this.#plan();
  }

  /** Resolves when the reporter can buffer more parts. Await it before each pull of the agent. */
  async room(): Promise<void> {
    if (this.#isClosed || this.#units <= MAX_UNACKNOWLEDGED_UNITS) return;
    this.#room ??= Promise.withResolvers();
    await this.#room.promise;
  }

  /**
   * Report now. Resolves when the floor has acknowledged all parts so far, and has said recently that the attempt is
   * wanted; or the reporter has given up.
   */
  async acknowledged(): Promise<void> {
    await this.#acknowledgedUpTo(this.#added);
    if (this.#isClosed || this.#options.clock.now() - this.#askedAt <= FRESH_MS) return;
    // Asked once: a floor may take longer than that for each answer.
    const before = this.#n;
    this.flush();
    while (!this.#isClosed && this.#answered <= before) await this.#progress.promise;
  }

  async #acknowledgedUpTo(added: number): Promise<void> {
    while (!this.#isClosed && this.#acknowledged < added) {
      // What does not wait is under way.
      if (this.#waiting.length > 0) this.flush();
      await this.#progress.promise;
    }
  }

  /** @param units its size in UTF-16 units, if it is known */
  add(part: WaitingPart["part"], units = unitsOf(part)): void {
    if (this.#isClosed) return;
    const waiting = this.#waiting.at(-1);
    if (!waiting) this.#waitingSince = this.#options.clock.now();
    const last = waiting?.part;
    if (part.kind === "append" && last?.kind === "append" && last.messageId === part.messageId) {
      const text = last.text + part.text;
      this.#waiting[this.#waiting.length - 1] = { part: { ...last, text }, units: text.length };
    } else {
      this.#waiting.push({ part, units });
      this.#added += 1;
    }
    this.#units += units;
    if (this.#units >= REPORT_AT_UNITS) this.flush();
    else this.#plan();
  }

  /** Report now, even without parts. */
  flush(): void {
    this.#isUrgent = true;
    this.#plan();
  }

  /** `false` for an attempt that is held or waits for an answer: it asks more often whether it is still wanted. */
  setPatience(isPatient: boolean): void {
    this.#isPatient = isPatient;
    this.#plan();
  }

  /** Send the last report. Resolves when the floor has acknowledged it, or the reporter has given up. */
  async finish(outcome: RunOutcome): Promise<void> {
    this.#outcome = outcome;
    this.flush();
    await this.#finished.promise;
  }

  /** Stop reporting; unacknowledged parts are dropped. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.timer.cancel();
    this.#room?.resolve();
    this.#progress.resolve();
    this.#finished.resolve();
  }

  #plan(): void {
    if (this.#isBusy || this.#isClosed) return;
    const { clock } = this.#options;
    const now = clock.now();
    const stillAt = this.#lastWordAt + (this.#isPatient ? STILL_AFTER_MS : STILL_WAITING_MS);
    const at = this.#isUrgent ? now : this.#waiting.length > 0 ? this.#waitingSince + REPORT_AFTER_MS : stillAt;
    if (this.#timer?.at === at) return;
    this.#timer?.timer.cancel();
    this.#timer = undefined;
    if (at <= now) void this.#act();
    else this.#timer = { at, timer: clock.after(at - now, () => void this.#act()) };
  }

  /** Never rejects: a fault here costs the attempt, and no other. */
  async #act(): Promise<void> {
    this.#timer = undefined;
    this.#isBusy = true;
    try {
      if (this.#isUrgent || this.#waiting.length > 0) await this.#report();
      else await this.#sendStill();
    } catch (error) {
      this.close();
      this.#options.onLost(error);
    }
    this.#lastWordAt = this.#options.clock.now();
    this.#isBusy = false;
    this.#plan();
  }

  async #report(): Promise<void> {
    this.#isUrgent = false;
    const sent = this.#nextParts();
    const parts: ReportPart[] = [];
    const withdrawn: RequestId[] = [];
    let retry: Pick<Retry, "after" | "delayMs"> | undefined;
    for (const { part } of sent) {
      if (part.kind === "withdraw") withdrawn.push(part.requestId);
      else if (part.kind === "retry") retry = { after: part.after, delayMs: part.delayMs };
      else parts.push(part);
    }
    const isLast = this.#waiting.length === 0;
    if (!isLast) this.#isUrgent = true;
    const outcome = isLast ? this.#outcome : undefined;
    const { sessionId, runId, attempt } = this.#options;
    this.#n += 1;
    const about = { sessionId, runId, attempt, n: this.#n };
    const more = { ...(withdrawn.length > 0 && { withdrawn }), ...(retry && { retry }), ...(outcome && { outcome }) };
    const directive = await this.#sendUntilReceived({ type: "run.report", ...about, parts, ...more });
    this.#units -= sent.reduce((sum, { units }) => sum + units, 0);
    if (this.#units <= MAX_UNACKNOWLEDGED_UNITS) {
      this.#room?.resolve();
      this.#room = undefined;
    }
    if (!directive) return;
    if (outcome) return this.close();
    this.#options.onDirective(directive);
    this.#acknowledged += sent.length;
    this.#answered = about.n;
    this.#progress.resolve();
    this.#progress = Promise.withResolvers();
  }

  /** The parts of the next report, within its limits. A question ends a report, so that order is kept. */
  #nextParts(): WaitingPart[] {
    let sum = 0;
    let count = 0;
    while (count < Math.min(this.#waiting.length, MAX_REPORT_PARTS)) {
      const { part, units } = this.#waiting[count]!;
      sum += units;
      if (count > 0 && sum > MAX_REPORT_UNITS) break;
      count += 1;
      if (part.kind === "ask") break;
    }
    return this.#waiting.splice(0, count);
  }

  async #sendUntilReceived(command: Command): Promise<Directive | undefined> {
    const { send, clock, onLost } = this.#options;
    let faults = 0;
    for (let tries = 1; !this.#isClosed; tries += 1) {
      try {
        const askedAt = clock.now();
        const reply = await send(command);
        if (reply.ok && reply.directive && reply.directive.expected === undefined) {
          this.#askedAt = askedAt;
          return reply.directive;
        }
        throw new Error(whyNotReceived(reply), { cause: reply });
      } catch (error) {
        const isPassing = error instanceof AppError && (error.code === "unavailable" || error.code === "busy");
        if (!isPassing) faults += 1;
        if (faults >= MAX_FAULTS) {
          this.close();
          onLost(error);
          return undefined;
        }
        await sleep(clock, backoffMs(tries, RETRIES));
      }
    }
    return undefined;
  }

  async #sendStill(): Promise<void> {
    const { send, sessionId, runId, attempt, onDirective } = this.#options;
    try {
      const askedAt = this.#options.clock.now();
      const reply = await send({ type: "run.still", sessionId, runId, attempt });
      if (!reply.ok || !reply.directive || this.#isClosed) return;
      this.#askedAt = askedAt;
      onDirective(reply.directive);
    } catch {
      // The floor is unreachable; the next plan asks again.
    }
  }
}

/** Why a reply to a report does not acknowledge it. */
function whyNotReceived(reply: Reply): string {
  if (!reply.ok) return `the floor refused a report: ${reply.code}`;
  const expected = reply.directive?.expected;
  if (expected === undefined) return "the floor answered a report without a directive";
  return `the floor expects report ${expected}, which it has acknowledged already`;
}

/** A part's size in UTF-16 units: its text, or its whole JSON for parts other than text. */
function unitsOf(part: WaitingPart["part"]): number {
  return part.kind === "append" ? part.text.length : JSON.stringify(part).length;
}
