import { type Audibility, depth } from "../../actors/floor/audible-together.ts";
import { type FloorRules, rulesOf } from "../../actors/floor/floor-state.ts";
import { type AgentEntry, acceptsTurns, type Catalog } from "../../config/catalog/catalog.ts";
import { decideAlone, loneContenderOf } from "../../policy/lone-contenders.ts";

/** The catalogue's settings for how an agent's sessions are heard together with others. */
const audibilityOf = (agent: AgentEntry): Audibility => loneContenderOf(agent, agent.id);

/** Effects of shared hearing that a catalogue's author may not expect, one sentence each. */
export function findSharingRisks(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled);
  const rules = rulesOf(catalog, {});
  return [
    ...findCutOff(agents),
    ...findUnwatched(agents),
    ...findEndlessWaits(agents, rules),
    ...findInaudible(agents),
  ];
}

/** External agents whose failure no lease detects. */
function findUnwatched(agents: readonly AgentEntry[]): string[] {
  return agents
    .filter((agent) => !acceptsTurns(agent) && agent.leaseMs === undefined)
    .map(({ id }) => `${id} is external and has no lease: if its program dies, its session keeps its place`);
}

/** Whether the critical agent's own entry pauses the other agent. */
function isMeant(critical: AgentEntry, { id }: AgentEntry): boolean {
  const levels = new Map(critical.beneath);
  return (levels.get(id) ?? levels.get("all")) === "pause";
}

/** Agents that are not interruptible and are silenced by a critical agent. */
function findCutOff(agents: readonly AgentEntry[]): string[] {
  return agents
    .filter((agent) => agent.critical)
    .flatMap((critical) =>
      agents
        .filter((agent) => !agent.critical && !agent.interruptible)
        .filter(
          (agent) => depth(audibilityOf(critical), audibilityOf(agent)) === undefined && !isMeant(critical, agent),
        )
        .map(
          (agent) =>
            `${critical.id} is critical and silences ${agent.id}, which is not interruptible: set when_preempted: duck ` +
            `for ${agent.id}, and name it in ${critical.id}'s beneath, so that both are heard; or set pause there`,
        ),
    );
}

/** Agents that may wait without a limit behind a holder that may keep the floor without a limit. */
function findEndlessWaits(agents: readonly AgentEntry[], rules: FloorRules): string[] {
  const isEndless = (holder: AgentEntry) =>
    holder.maxHoldMs === undefined && holder.idleTimeoutMs === undefined && !holder.idleYields;
  const blocks = (holder: AgentEntry, challenger: AgentEntry) => {
    const contenders = [loneContenderOf(holder, "holder"), loneContenderOf(challenger, "challenger", 2)] as const;
    return decideAlone(...contenders, challenger, rules).outcome === "queued";
  };
  return agents
    .filter((agent) => agent.whenBlocked.includes("queue") && agent.queueTimeoutMs === undefined)
    .flatMap((agent) =>
      agents
        .filter((holder) => holder !== agent && isEndless(holder) && blocks(holder, agent))
        .map(
          (holder) =>
            `${agent.id} may wait forever behind ${holder.id}: it has no queue_timeout, and ${holder.id} has neither ` +
            "max_hold nor idle_timeout",
        ),
    );
}

/** Pairs in which both agents let all others be heard beneath them but neither can be ducked. */
function findInaudible(agents: readonly AgentEntry[]): string[] {
  const isOpen = ({ beneath, whenPreempted, critical }: AgentEntry) =>
    whenPreempted === "pause" && !critical && beneath.some(([name, level]) => name === "all" && level !== "pause");
  const open = agents.filter(isOpen);
  return open.flatMap((one, index) =>
    open
      .slice(index + 1)
      .map(
        (other) =>
          `${one.id} and ${other.id} both let all agents be heard beneath them, but neither has when_preempted: duck, so one ` +
          "silences the other",
      ),
  );
}
