import type { Beneath } from "../../config/catalog/catalog.ts";
import type { PriorityStep } from "../../protocol/decision.ts";
import type { AgentId, SessionId } from "../../protocol/ids.ts";

/** The values that a session competes with. They are computed at its request, and kept until its next request. */
export interface Claim {
  readonly sessionId: SessionId;
  readonly agentId: AgentId;
  readonly priority: number;
  readonly interruptible: boolean;
  readonly preemptionThreshold?: number | undefined;
  readonly explained: readonly PriorityStep[];
  /** The sessions that may be heard beneath it; absent: none. */
  readonly beneath?: Beneath | undefined;
  /** Whether it can continue beneath a session that allows it. */
  readonly ducks?: true | undefined;
  /** Whether it is critical: other sessions never reject, queue, pause or duck it. */
  readonly critical?: true | undefined;
  /** The language in which decisions about it are said. */
  readonly locale?: string | undefined;
}

/** A session that is heard beneath the holder. */
export interface DuckedClaim extends Claim {
  /** dB below its own volume, -60 to 0. */
  readonly level: number;
}

/** A session that waits for its first grant. */
export interface QueuedClaim extends Claim {
  readonly queuedAt: number;
}
