import type { AgentEntry, Catalog, PriorityRule } from "../../config/catalog/catalog.ts";
import { isDuring } from "../../config/catalog/hours.ts";
import type { PriorityStep } from "../../protocol/decision.ts";

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
