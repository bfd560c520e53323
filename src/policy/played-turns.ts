import { isAudible } from "../actors/session/session-context.ts";
import type { ErrorCode } from "../protocol/errors.ts";
import type { RequestId, RunId, SessionId } from "../protocol/ids.ts";
import type { Command } from "../protocol/internal/command.ts";
import type { RunOutcome } from "../protocol/internal/run.ts";
import { masterRef } from "../protocol/message.ts";
import type { ReportContent, SteppedFloor, TimedFact } from "./stepped-floor.ts";

/**
 * What an agent does in a turn: it acts, asks its user, or ends the turn.
 *
 * @property workMs for how long the turn has been running and audible until then, in ms
 * @property at the floor's time of what happens while the session is silent, to which no work leads. It counts only if
 *   the run is held then
 * @property index orders what happens in the same ms; default: first
 */
export type TurnStep = {
  readonly workMs: number;
  readonly at?: number | undefined;
  readonly index?: number | undefined;
} & (
  | { readonly does: "act"; readonly author?: string | undefined }
  | {
      readonly does: "ask";
      readonly requestId: RequestId;
      /** How long until it is answered, or its agent withdraws it. Absent: until its time is over. */
      openMs?: number | undefined;
      endedBy?: "client" | "agent" | undefined;
      endIndex?: number | undefined;
    }
  | { readonly does: "end"; readonly failure?: ErrorCode | undefined }
);

export interface TurnPlan {
  readonly sessionId: SessionId;
  readonly runId: RunId;
  /** In order. */
  readonly steps: readonly TurnStep[];
}

/** What happens next by itself: `act` does it. */
export interface Upcoming {
  /** In the floor's time, ms. */
  readonly at: number;
  readonly index: number;
  readonly act: () => void;
}

interface PlayedTurn extends TurnPlan {
  done: number;
  workMs: number;
  /** Since when it is running and audible, in the floor's time; undefined: it is held, or waits. */
  since?: number | undefined;
}

interface OpenQuestion {
  readonly turn: PlayedTurn;
  readonly step: Extract<TurnStep, { does: "ask" }>;
  readonly at: number;
}

/**
 * The workers of a stepped floor: they claim runs at once, confirm the end of attempts at once, and report what the
 * plan of each turn says. A turn goes on while its session is audible.
 */
export class PlayedTurns {
  readonly #floor: SteppedFloor;
  readonly #send: (command: Command) => unknown;
  readonly #turns = new Map<RunId, PlayedTurn>();
  readonly #questions = new Map<RequestId, OpenQuestion>();

  /** @param send steps the floor by a command, and gives the facts to `serve` */
  constructor(floor: SteppedFloor, send: (command: Command) => unknown) {
    this.#floor = floor;
    this.#send = send;
  }

  add(plan: TurnPlan): void {
    this.#turns.set(plan.runId, { ...plan, done: 0, workMs: 0 });
  }

  forget(runId: RunId): void {
    this.#turns.delete(runId);
  }

  /** Do what workers do after these facts, and note which turns go on from now. */
  serve(facts: readonly TimedFact[]): void {
    for (const { fact } of facts) {
      if (fact.type === "run_request.add" && !fact.request.purpose) this.#sendIfAny(this.#floor.claimOf(fact.request));
      else if (fact.type === "signal" && fact.signal.signal === "stop")
        this.#sendIfAny(this.#floor.stopReportOf(fact.runId));
    }
    for (const turn of this.#turns.values()) this.#follow(turn);
  }

  next(): Upcoming | undefined {
    let next: Upcoming | undefined;
    const consider = (at: number, index: number, act: () => void) => {
      if (!next || at < next.at || (at === next.at && index < next.index)) next = { at, index, act };
    };
    for (const turn of this.#turns.values()) {
      const step = turn.steps[turn.done];
      const at = step && this.#dueAt(turn, step);
      if (at !== undefined) consider(at, step!.index ?? 0, () => this.#take(turn, step!));
    }
    for (const [requestId, { step, at }] of this.#questions) {
      const { openMs } = step;
      if (openMs !== undefined) consider(at + openMs, step.endIndex ?? 0, () => this.#resolve(requestId));
    }
    return next;
  }

  #dueAt({ sessionId, runId, since, workMs }: PlayedTurn, step: TurnStep): number | undefined {
    if (since !== undefined) return since + Math.max(0, step.workMs - workMs);
    if (step.at === undefined) return undefined;
    const run = this.#floor.session(sessionId)?.context.run;
    return run?.id === runId && run.live ? Math.max(step.at, this.#floor.time) : undefined;
  }

  #take(turn: PlayedTurn, step: TurnStep): void {
    turn.done += 1;
    const { sessionId, runId } = turn;
    switch (step.does) {
      case "act": {
        const name = step.author ?? this.#floor.session(sessionId)!.context.numbers.agentId;
        const call = { toolCallId: `call-${turn.done}`, function: { name: "tool", arguments: "{}" } };
        return this.#report(turn, { parts: [{ kind: "tool_call", call, agent: masterRef(name) }] });
      }
      case "ask": {
        const { requestId } = step;
        const interaction = { kind: "question" as const, requestId, question: "…", options: [] };
        this.#questions.set(requestId, { turn, step, at: this.#floor.time });
        return this.#report(turn, { parts: [{ kind: "ask", interaction }] });
      }
      case "end": {
        const { failure: code } = step;
        this.#turns.delete(runId);
        const outcome: RunOutcome = code ? { kind: "failed", code, message: "the turn failed" } : { kind: "done" };
        return this.#report(turn, { outcome });
      }
    }
  }

  #resolve(requestId: RequestId): void {
    const { turn, step } = this.#questions.get(requestId)!;
    this.#questions.delete(requestId);
    const { sessionId } = turn;
    const pending = this.#floor.session(sessionId)?.context.run?.interactions ?? [];
    if (!pending.some(({ interaction }) => interaction.requestId === requestId)) return;
    if (step.endedBy === "agent") this.#report(turn, { withdrawn: [requestId] });
    else {
      const answer = { kind: "question" as const, requestId, selected: [] };
      this.#send({ type: "session.answer", sessionId, requestId, answer });
    }
  }

  #report({ sessionId, runId }: TurnPlan, content: ReportContent): void {
    this.#sendIfAny(this.#floor.reportOf(sessionId, runId, content));
  }

  #sendIfAny(command: Command | undefined): void {
    if (command) this.#send(command);
  }

  #follow(turn: PlayedTurn): void {
    const { time } = this.#floor;
    const session = this.#floor.session(turn.sessionId);
    const isOver = !session || session.value.lifecycle === "archived" || session.value.lifecycle === "deleted";
    if (isOver) {
      this.#turns.delete(turn.runId);
      return;
    }
    const { context, value } = session;
    const isRunning = context.run?.id === turn.runId && value.activity === "running" && isAudible(context);
    if (isRunning) turn.since ??= time;
    else if (turn.since !== undefined) {
      turn.workMs += time - turn.since;
      turn.since = undefined;
    }
  }
}
