import { type FloorRules, rulesOf } from "../../actors/floor/floor-state.ts";
import { type AgentEntry, acceptsTurns, type Catalog, type PriorityRule } from "../../config/catalog/catalog.ts";
import { decideAlone, loneContenderOf } from "../../policy/lone-contenders.ts";
import { meet } from "../../policy/matrix.ts";

/** Agents that are silenced too little, or for too long, one sentence each. */
export function findSilenceRisks(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled);
  const rules = rulesOf(catalog, {});
  return [
    ...findStandoffs(agents, rules),
    ...findNeverSilenced(catalog, agents, rules),
    ...findNeverResumed(agents, rules),
  ];
}

/** Whether the agent with the higher priority is blocked, because the holder cannot be interrupted. */
function isStandoff(challenger: AgentEntry, holder: AgentEntry, rules: FloorRules): boolean {
  const { interruptible, preemptionThreshold, priority } = holder;
  if (interruptible || preemptionThreshold !== undefined || priority >= challenger.priority) return false;
  const contenders = [loneContenderOf(holder, "holder"), loneContenderOf(challenger, "challenger", 2)] as const;
  return decideAlone(...contenders, challenger, rules).rule === 8;
}

/** Pairs with a standoff. That is right for a reversing camera but surprising for a phone call. */
function findStandoffs(agents: readonly AgentEntry[], rules: FloorRules): string[] {
  return agents
    .toSorted((a, b) => b.priority - a.priority)
    .flatMap((challenger) =>
      agents
        .filter((holder) => isStandoff(challenger, holder, rules))
        .toSorted((a, b) => b.priority - a.priority)
        .map(
          (holder) =>
            `${challenger.id} (${challenger.priority}) cannot interrupt ${holder.id} (${holder.priority}): ` +
            `${holder.id} is not interruptible and has no preemption_threshold`,
        ),
    );
}

/** The lowest and the highest priority that users' overrides and rules can give to an agent. */
function rangeOf({ id, priority, critical }: AgentEntry, { overrides, priorityRules }: Catalog): [number, number] {
  if (critical) return [priority, priority];
  const priorities = [priority, ...[...overrides.values()].flatMap((ofUser) => ofUser.get(id) ?? [])];
  const adjusts = priorityRules.filter((rule) => namesAgent(rule, id)).map(({ adjust }) => adjust);
  const sum = (which: (adjust: number) => boolean) => adjusts.filter(which).reduce((all, each) => all + each, 0);
  return [
    Math.max(0, Math.min(...priorities) + sum((adjust) => adjust < 0)),
    Math.min(100, Math.max(...priorities) + sum((adjust) => adjust > 0)),
  ];
}

const namesAgent = ({ agents }: PriorityRule, id: AgentEntry["id"]) => agents === undefined || agents.includes(id);

/** Agents that are not interruptible, have no limit, and that no other agent and no restriction silences. */
function findNeverSilenced(catalog: Catalog, agents: readonly AgentEntry[], rules: FloorRules): string[] {
  const isEndless = (agent: AgentEntry) =>
    agent.maxHoldMs === undefined &&
    agent.idleTimeoutMs === undefined &&
    !agent.idleYields &&
    agent.afterTurn === "keep";
  const isRestricted = ({ id }: AgentEntry) =>
    catalog.restrictions.some(({ allow, others }) => others !== "finish" && !allow.includes(id));
  const yields = (holder: AgentEntry, challenger: AgentEntry) => {
    const holding = { ...loneContenderOf(holder, "holder"), priority: rangeOf(holder, catalog)[0] };
    const challenging = { ...loneContenderOf(challenger, "challenger", 2), priority: rangeOf(challenger, catalog)[1] };
    return ["pauses", "ducks", "replaces"].includes(meet(holding, challenging, challenger, rules).effect);
  };
  // Without another agent there is nothing that would have to wait.
  if (agents.length < 2) return [];
  return agents
    .filter((agent) => !agent.critical && !agent.interruptible && isEndless(agent) && !isRestricted(agent))
    .filter((agent) => !agents.some((other) => isStandoff(other, agent, rules) || yields(agent, other)))
    .map((agent) => {
      const { id, preemptionThreshold: threshold } = agent;
      const why = threshold === undefined ? "" : `, no agent reaches its preemption_threshold of ${threshold}`;
      const limits = acceptsTurns(agent) ? "max_hold or idle_timeout" : "max_hold";
      return (
        `nothing silences ${id}: it is not interruptible${why}, and nothing limits how long it has the floor, so all others ` +
        `wait or are refused until its session is paused or ended: set ${limits}, or a preemption_threshold that others reach`
      );
    });
}

/** Agents that others pause, and that stay paused for ever unless their user acts. */
function findNeverResumed(agents: readonly AgentEntry[], rules: FloorRules): string[] {
  const isPausedBy = (agent: AgentEntry, other: AgentEntry) =>
    meet(loneContenderOf(agent, "holder"), loneContenderOf(other, "challenger", 2), other, rules).effect === "pauses";
  return agents
    .filter((agent) => agent.resume === "manual" && agent.maxPauseMs === undefined)
    .flatMap((agent) => {
      const by = agents.find((other) => other !== agent && isPausedBy(agent, other));
      if (!by) return [];
      const act = acceptsTurns(agent) ? "resumes it or writes to it" : "resumes it";
      return [
        `nothing brings ${agent.id} back that was paused, as by ${by.id}, unless its user ${act}: set resume: auto, or max_pause ` +
          "to end it some time",
      ];
    });
}
