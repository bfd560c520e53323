import type { AgentEntry, Beneath, Catalog, PriorityRule } from "../../config/catalog/catalog.ts";
import { isDuring } from "../../config/catalog/hours.ts";
import type { PriorityStep } from "../../protocol/decision.ts";
import { type AgentId, type FloorId, type SessionId, userOf } from "../../protocol/ids.ts";
import type { Given } from "../facts.ts";

/** The numbers that an agent's sessions compete with. */
export interface Numbers {
  readonly agentId: AgentId;
  readonly priority: number;
  readonly interruptible: boolean;
  readonly preemptionThreshold?: number | undefined;
  readonly explained: readonly PriorityStep[];
  /** The sessions that may be audible beneath it; absent: none. */
  readonly beneath?: Beneath | undefined;
  /** Whether it can continue beneath a session that allows it. */
  readonly ducks?: true | undefined;
  /** Whether it is critical: other sessions never reject, queue, pause or duck it. */
  readonly critical?: true | undefined;
  /** The agents that it gives way to although it is not interruptible; absent: none. */
  readonly yieldsTo?: readonly string[] | undefined;
  /** The language in which decisions about it are said. */
  readonly locale?: string | undefined;
}

/** A session with the numbers of its last request. */
export interface Contender extends Numbers {
  readonly sessionId: SessionId;
  /**
   * Which of all requests of the floor its last one was; 0: it has not made one. An ordinal and not a time: the rows of
   * floors and sessions store it by this name.
   */
  readonly askedAt: number;
  /** It is paused and asked to resume, so it comes back by itself, even with `resume: manual`. */
  readonly wants?: true | undefined;
  /** The restrictions with `others: finish` under which it was audible: it may come back until they are over. */
  readonly finishes?: readonly string[] | undefined;
}

/** A session that is audible beneath the holder. */
export interface DuckedContender extends Contender {
  /** dB below its own volume, -60 to 0. */
  readonly level: number;
}

/** A session that waits for its first grant. */
export interface QueuedContender extends Contender {
  readonly queuedAt: number;
}

/** The numbers an agent would compete with on this floor now. */
export function numbersOf(
  { given, flags, floorId }: { given: Given; flags: PriorityContext["flags"]; floorId: FloorId },
  agent: AgentEntry,
): Numbers {
  const context = { now: given.now, userId: userOf(floorId), flags };
  return numbersOfAgent(agent, effectivePriority(agent, given.catalog, context));
}

/** The numbers of an agent's sessions at this priority. */
export function numbersOfAgent(
  { id, interruptible, preemptionThreshold, beneath, whenPreempted, critical, yieldsTo }: AgentEntry,
  { value, explained }: EffectivePriority,
): Numbers {
  return {
    agentId: id,
    priority: value,
    interruptible,
    preemptionThreshold,
    explained,
    ...(beneath.length > 0 && { beneath }),
    ...(whenPreempted === "duck" && { ducks: true as const }),
    ...(critical && { critical: true as const }),
    ...(yieldsTo.length > 0 && { yieldsTo }),
  };
}

/** The inputs of an effective priority, in addition to the catalogue. */
export interface PriorityContext {
  /** ms since 1970. */
  now: number;
  userId: string | undefined;
  /** Context flags of the floor, as `when:` names them. */
  flags: Readonly<Record<string, boolean>>;
}

export interface EffectivePriority {
  /** 0..100 */
  value: number;
  explained: PriorityStep[];
}

/**
 * The priority that an agent competes with now: the user's override, or else the agent's own priority; plus each
 * matching rule, in the order of the file; clamped to 0..100. The priority of a critical agent never changes. Pure. The
 * result lists every step.
 */
export function effectivePriority(agent: AgentEntry, catalog: Catalog, context: PriorityContext): EffectivePriority {
  const override = context.userId === undefined ? undefined : catalog.overrides.get(context.userId)?.get(agent.id);
  let value = agent.priority;
  const explained: PriorityStep[] = [{ step: "agent", value }];
  if (override !== undefined) {
    value = override;
    explained.push({ step: "override", value });
  }
  for (const rule of catalog.priorityRules) {
    if (!ruleApplies(rule, agent, context)) continue;
    value += rule.adjust;
    explained.push({ step: `rule:${rule.name}`, adjust: rule.adjust, value });
  }
  const clamped = Math.min(100, Math.max(0, value));
  if (clamped !== value) explained.push({ step: "clamp", value: clamped });
  return { value: clamped, explained };
}

function ruleApplies(rule: PriorityRule, agent: AgentEntry, context: PriorityContext): boolean {
  if (agent.critical || (rule.agents && !rule.agents.includes(agent.id))) return false;
  if (rule.when !== undefined && context.flags[rule.when] !== true) return false;
  return isDuring(rule, context.now);
}

/** A contender with other numbers. Its rank, its level and its ordinal stay. */
export function withNumbers<C extends Contender>(contender: C, numbers: Numbers): C {
  // Keys that the new numbers do not have are not kept from the old ones.
  const { beneath: _b, ducks: _d, critical: _c, yieldsTo: _y, ...rest } = contender;
  return { ...rest, ...numbers } as unknown as C;
}
