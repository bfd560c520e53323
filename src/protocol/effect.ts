import type { AgentId, EffectId, FloorId, RunId, SessionId } from "./ids.ts";
import type { Trace } from "./tracer.ts";

/** Work a floor wants done outside its actors; committed with the change that asks for it, carried out afterwards. */
export type Effect = RunEffect | TimerEffect;

interface Wanted {
  /** New each time it is wanted (rule C7). */
  readonly id: EffectId;
  readonly floorId: FloorId;
  /** ms since 1970; not carried out before. */
  readonly dueAt: number;
}

/** A run that waits for a worker; here until its outcome is committed. */
export interface RunEffect extends Wanted {
  readonly kind: "run";
  readonly sessionId: SessionId;
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** The priority the session was granted the floor with, 0..100. */
  readonly priority: number;
  /** The commit that wished for it, where that is traced. */
  readonly trace?: Trace | undefined;
}

/** A delay that ends in a `timer` command to its floor. */
export interface TimerEffect extends Wanted {
  readonly kind: "timer";
  readonly sessionId?: SessionId | undefined;
}
