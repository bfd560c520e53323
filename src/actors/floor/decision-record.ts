/** Decisions as they are logged and answered. */

import type { AgentEntry, Restriction } from "../../config/catalog/catalog.ts";
import type { Decision, Reason } from "../../protocol/decision.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { Contender, Numbers } from "./contender.ts";
import { saying, wouldNeed } from "./sayings.ts";

type Agents = ReadonlyMap<string, AgentEntry>;

/** What a record says besides its rule. */
interface Circumstances {
  /** At which the challenger starts beneath the holder, in dB. */
  readonly level?: number | undefined;
  readonly restriction?: Restriction | undefined;
  /** The holder goes on beneath the challenger instead of being paused. */
  readonly isHolderDucked?: boolean | undefined;
}

/** Creates the record of a decision about this challenger. */
export function recorder(challenger: Numbers & { sessionId?: SessionId | undefined }, agents: Agents) {
  return (
    outcome: Decision["outcome"],
    reason: Reason,
    rule?: number,
    holder?: Contender,
    { level, restriction, isHolderDucked = false }: Circumstances = {},
  ): Decision => {
    const needed = outcome === "granted" ? undefined : wouldNeed(reason, challenger, holder, restriction);
    return {
      outcome,
      reason,
      ...(rule !== undefined && { rule }),
      challenger: {
        ...(challenger.sessionId !== undefined && { sessionId: challenger.sessionId }),
        agentId: challenger.agentId,
        priority: challenger.priority,
        explained: [...challenger.explained],
      },
      ...(holder && {
        holder: {
          sessionId: holder.sessionId,
          agentId: holder.agentId,
          priority: holder.priority,
          interruptible: holder.interruptible,
        },
      }),
      ...(needed !== undefined && { wouldNeed: needed }),
      ...(level !== undefined && { level }),
      say: saying(
        {
          ...{ outcome, reason, isHolderDucked, locale: challenger.locale },
          ...{ challengerId: challenger.agentId, holderId: holder?.agentId },
        },
        agents,
      ),
    };
  };
}

/** The record of a wake. The release caused it, and not a rule. */
export function wakeDecision(contender: Contender, reason: "resumed" | "dequeued", agents: Agents): Decision {
  return recorder(contender, agents)("granted", reason);
}

/** The record of a wait that ended without a grant. */
export function endOfWaitDecision(
  contender: Contender,
  holder: Contender | undefined,
  agents: Agents,
  reason: "queue_timeout" | "lease_expired",
): Decision {
  return recorder(contender, agents)("rejected", reason, undefined, holder);
}
