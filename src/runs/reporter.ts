import type { Clock, Timer } from "../protocol/clock.ts";
import { sleep } from "../protocol/clock.ts";
import type { Command } from "../protocol/command.ts";
import { AppError } from "../protocol/errors.ts";
import type { RunId, SessionId } from "../protocol/ids.ts";
import type { Reply } from "../protocol/reply.ts";
import type { ReportPart, RunOutcome, Standing } from "../protocol/run.ts";

/** A part is reported at most so long after it came, in ms … */
const REPORT_AFTER_MS = 250;
/** … or when so much waits, in UTF-16 units. */
const REPORT_AT_UNITS = 4_096;
/** What is not acknowledged yet, in UTF-16 units; over it the agent is not pulled (rule C12). */
const MAX_UNACKNOWLEDGED_UNITS = 262_144;
/** Units and parts in one report. */
const MAX_REPORT_UNITS = 32_768;
const MAX_REPORT_PARTS = 500;
/** How long a silent attempt waits before it asks whether it is wanted, in ms (rule C13) … */
const STILL_AFTER_MS = 5_000;
/** … and while it is held, or waits for an answer. */
const STILL_WAITING_MS = 1_000;
/** Between two tries of a report, in ms; doubled up to the longest. */
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
/** A floor that answers `internal` so often will not take the report any more. */
const MAX_FAULTS = 5;

export interface ReporterOptions {
  sessionId: SessionId;
  runId: RunId;
  attempt: number;
  clock: Clock;
  /** Asks the session's floor; rejects with an `AppError` when it cannot be had. */
  ask: (command: Command) => Promise<Reply>;
  /** The floor's word on the attempt, whenever it says one. */
  onStanding: (standing: Standing) => void;
  /** The floor takes no report of this attempt any more. */
  onLost: (error: unknown) => void;
}

/**
 * What an attempt tells its floor: numbered, in order, one report in flight, repeated until it is taken (rule C12).
 * While there is nothing to tell, it asks whether the attempt is still wanted (rule C13).
 */
export class Reporter {
  readonly #options: ReporterOptions;
  #waiting: ReportPart[] = [];
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
  readonly #finished = Promise.withResolvers<void>();

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#lastWordAt = options.clock.now();
    this.#plan();
  }

  /** Resolves when there is room for more; an agent is not pulled before. */
  async room(): Promise<void> {
    if (this.#isClosed || this.#units <= MAX_UNACKNOWLEDGED_UNITS) return;
    this.#room ??= Promise.withResolvers();
    await this.#room.promise;
  }

  add(part: ReportPart): void {
    if (this.#isClosed) return;
    const last = this.#waiting.at(-1);
    if (!last) this.#waitingSince = this.#options.clock.now();
    if (part.kind === "append" && last?.kind === "append" && last.messageId === part.messageId) {
      this.#waiting[this.#waiting.length - 1] = { ...last, text: last.text + part.text };
    } else {
      this.#waiting.push(part);
    }
    this.#units += unitsOf(part);
    if (this.#units >= REPORT_AT_UNITS) this.flush();
    else this.#plan();
  }

  /** Report now, even if there is nothing to tell. */
  flush(): void {
    this.#isUrgent = true;
    this.#plan();
  }

  /** An attempt that is held, or waits for an answer, asks more often whether anything changed. */
  setPatience(isPatient: boolean): void {
    this.#isPatient = isPatient;
    this.#plan();
  }

  /** The last report; resolves when the floor has taken it, or never will. */
  async finish(outcome: RunOutcome): Promise<void> {
    this.#outcome = outcome;
    this.flush();
    await this.#finished.promise;
  }

  /** Nothing more is told. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.timer.cancel();
    this.#room?.resolve();
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

  async #act(): Promise<void> {
    this.#timer = undefined;
    this.#isBusy = true;
    if (this.#isUrgent || this.#waiting.length > 0) await this.#report();
    else await this.#askStill();
    this.#lastWordAt = this.#options.clock.now();
    this.#isBusy = false;
    this.#plan();
  }

  async #report(): Promise<void> {
    this.#isUrgent = false;
    const parts = this.#takeParts();
    const isLast = this.#waiting.length === 0;
    if (!isLast) this.#isUrgent = true;
    const outcome = isLast ? this.#outcome : undefined;
    const { sessionId, runId, attempt } = this.#options;
    this.#n += 1;
    const about = { sessionId, runId, attempt, n: this.#n };
    const standing = await this.#askUntilTaken({ type: "run.report", ...about, parts, ...(outcome && { outcome }) });
    this.#units -= parts.reduce((sum, part) => sum + unitsOf(part), 0);
    if (this.#units <= MAX_UNACKNOWLEDGED_UNITS) {
      this.#room?.resolve();
      this.#room = undefined;
    }
    if (!standing) return;
    if (outcome) return this.close();
    this.#options.onStanding(standing);
  }

  /** At most one report's worth; what follows a question waits for the next, so that order is kept. */
  #takeParts(): ReportPart[] {
    let units = 0;
    let count = 0;
    while (count < Math.min(this.#waiting.length, MAX_REPORT_PARTS)) {
      const part = this.#waiting[count]!;
      units += unitsOf(part);
      if (count > 0 && units > MAX_REPORT_UNITS) break;
      count += 1;
      if (part.kind === "ask") break;
    }
    return this.#waiting.splice(0, count);
  }

  async #askUntilTaken(command: Command): Promise<Standing | undefined> {
    const { ask, clock, onLost } = this.#options;
    let faults = 0;
    for (let delayMs = FIRST_RETRY_MS; !this.#isClosed; delayMs = Math.min(delayMs * 2, LONGEST_RETRY_MS)) {
      try {
        const reply = await ask(command);
        if (reply.ok && reply.standing && reply.standing.expected === undefined) return reply.standing;
        throw new Error("the floor lacks reports that it has acknowledged", { cause: reply });
      } catch (error) {
        const isPassing = error instanceof AppError && (error.code === "unavailable" || error.code === "busy");
        if (!isPassing) faults += 1;
        if (faults >= MAX_FAULTS) {
          this.close();
          onLost(error);
          return undefined;
        }
        await sleep(clock, delayMs);
      }
    }
    return undefined;
  }

  async #askStill(): Promise<void> {
    const { ask, sessionId, runId, attempt, onStanding } = this.#options;
    try {
      const reply = await ask({ type: "run.still", sessionId, runId, attempt });
      if (reply.ok && reply.standing && !this.#isClosed) onStanding(reply.standing);
    } catch {
      // It asks again soon: a floor that cannot be had now is asked later.
    }
  }
}

/** What a part takes: its words, or all of it where it is more than words. */
function unitsOf(part: ReportPart): number {
  return part.kind === "append" ? part.text.length : JSON.stringify(part).length;
}
