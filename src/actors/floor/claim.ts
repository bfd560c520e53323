import type { Beneath } from "../../config/catalog/catalog.ts";
import type { PriorityStep } from "../../protocol/decision.ts";
import type { AgentId, EffectId, SessionId } from "../../protocol/ids.ts";

/** The numbers a session competes with: computed when it asked, kept until it asks again. */
export interface Claim {
  readonly sessionId: SessionId;
  readonly agentId: AgentId;
  readonly priority: number;
  readonly interruptible: boolean;
  readonly preemptionThreshold?: number | undefined;
  readonly explained: readonly PriorityStep[];
  /** The sessions that may be heard beneath it; absent: none. */
  readonly beneath?: Beneath | undefined;
  /** It can go on beneath a session that lets it. */
  readonly ducks?: true | undefined;
  /** Never rejected, queued, paused or made quieter by another session. */
  readonly critical?: true | undefined;
}

/** A session that is heard beneath the holder. */
export interface DuckedClaim extends Claim {
  /** dB below its own volume, -60 to 0. */
  readonly level: number;
}

/** A session that waits for its first grant. */
export interface QueuedClaim extends Claim {
  readonly queuedAt: number;
  readonly timerId?: EffectId | undefined;
}
