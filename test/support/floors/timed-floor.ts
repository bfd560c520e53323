import type { Delivery } from "../../../src/actors/host/floor-actors.ts";
import type { Session } from "../../../src/protocol/session.ts";
import { FloorStage } from "./floor-stage.ts";

interface Timer {
  id: string;
  dueAt: number;
  sessionId?: string | undefined;
}

/** A floor whose timers fire when they are due. */
export class TimedFloor extends FloorStage {
  /** The pending timers, the earliest first. */
  get timers(): Timer[] {
    const standing = new Map<string, Timer>();
    for (const fact of this.facts) {
      if (fact.type === "effect.add" && fact.effect.kind === "timer") standing.set(fact.effect.id, fact.effect);
      if (fact.type === "effect.remove") standing.delete(fact.id);
    }
    return [...standing.values()].sort((one, other) => one.dueAt - other.dueAt);
  }

  /** Let time pass. A timer fires when it is due, or at the end of `awayMs`, in which the node was down. */
  pass(ms: number, awayMs = 0): void {
    const until = this.now + ms;
    const backAt = this.now + awayMs;
    for (let [next] = this.timers; next && Math.max(next.dueAt, backAt) <= until; [next] = this.timers) {
      this.now = Math.max(this.now, next.dueAt, backAt);
      this.fire(next);
    }
    this.now = until;
  }

  fire({ id, sessionId }: Timer): void {
    this.ask({ type: "timer", timerId: id, ...(sessionId !== undefined && { sessionId }) });
  }

  beat(sessionId: string): Delivery {
    return this.deliver({ type: "session.heartbeat", sessionId });
  }

  /** Send a heartbeat at each of these times from now. */
  beatAt(sessionId: string, ...times: number[]): void {
    const from = this.now;
    for (const at of times) {
      this.pass(from + at - this.now);
      this.beat(sessionId);
    }
  }

  /** The session as answers contain it. */
  view(sessionId: string): Session | undefined {
    const view = this.actors.machineState(sessionId as never)?.view;
    return view && JSON.parse(JSON.stringify(view));
  }
}
