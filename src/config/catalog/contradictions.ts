import { z } from "zod";
import type { StrayName } from "./stray-names.ts";

const text = () => z.string().optional().catch(undefined);

/** Keys that say how an agent takes turns. */
const FOR_TURNS = [
  "instructions",
  "tools",
  "max_steps",
  "sub_agents",
  "max_depth",
  "when_busy",
  "idle_timeout",
  "after_turn",
] as const;

/** What to write instead of a key, if anything. */
const EXTERNAL_MEANS: { readonly [key in (typeof FOR_TURNS)[number]]?: string } = {
  idle_timeout: "the agent is never between two turns; max_hold limits its time in front",
};

/** Extracts the keys to check from a file that may have other faults. */
const Keys = z
  .object({
    agents: z
      .array(
        z
          .object({
            name: text(),
            enabled: z.boolean().default(true).catch(true),
            critical: z.boolean().default(false).catch(false),
            when_blocked: text(),
            when_preempted: text(),
            adapter: z.object({ kind: text() }).optional().catch(undefined),
            ...Object.fromEntries(FOR_TURNS.map((key) => [key, z.unknown().optional()])),
            sub_agents: z.array(text()).optional().catch(undefined),
          })
          .catch({ name: undefined, enabled: true, critical: false }),
      )
      .catch([]),
    priority_rules: z.array(z.object({ agents: z.array(text()).catch([]) }).catch({ agents: [] })).catch([]),
    user_preferences: z
      .record(
        z.string(),
        z.object({ agent_priority_overrides: z.record(z.string(), z.unknown()).catch({}) }).catch({
          agent_priority_overrides: {},
        }),
      )
      .catch({}),
  })
  .catch({ agents: [], priority_rules: [], user_preferences: {} });

/**
 * Find keys that are each valid but contradict each other. A critical agent is never refused and outranks all others,
 * so no key may disable it, change its priority or define what happens when it is blocked.
 */
export function findContradictions(file: unknown): StrayName[] {
  const { agents, priority_rules, user_preferences } = Keys.parse(file);
  const found: StrayName[] = [];
  const critical = new Set<string>();
  const external = new Set(agents.flatMap(({ name, adapter }) => (adapter?.kind === "external" && name ? [name] : [])));
  for (const [index, agent] of agents.entries()) {
    if (agent.when_blocked === "duck" && agent.when_preempted !== "duck") {
      const message = "needs when_preempted: duck: only a session that can play quieter can start beneath another";
      found.push({ path: ["agents", index, "when_blocked"], message });
    }
    if (agent.adapter?.kind === "external") {
      const entry: Readonly<Record<string, unknown>> = agent;
      for (const key of FOR_TURNS) {
        if (entry[key] === undefined) continue;
        const message = `has no meaning with adapter external: ${EXTERNAL_MEANS[key] ?? "the agent takes no turns"}`;
        found.push({ path: ["agents", index, key], message });
      }
    }
    for (const [at, name] of (agent.sub_agents ?? []).entries()) {
      if (name === undefined || !external.has(name)) continue;
      const message = `must not name ${name}: an external agent takes no turns`;
      found.push({ path: ["agents", index, "sub_agents", at], message });
    }
    if (!agent.critical) continue;
    if (agent.name !== undefined) critical.add(agent.name);
    if (!agent.enabled) {
      found.push({
        path: ["agents", index, "enabled"],
        message: "must not be false: a critical agent is never refused",
      });
    }
    if (agent.when_blocked !== undefined) {
      const message = "has no meaning with critical: a critical agent is never blocked";
      found.push({ path: ["agents", index, "when_blocked"], message });
    }
  }
  for (const [index, rule] of priority_rules.entries()) {
    for (const [at, name] of rule.agents.entries()) {
      if (name === undefined || !critical.has(name)) continue;
      const message = `must not name ${name}: the priority of a critical agent does not change`;
      found.push({ path: ["priority_rules", index, "agents", at], message });
    }
  }
  for (const [user, preferences] of Object.entries(user_preferences)) {
    for (const name of Object.keys(preferences.agent_priority_overrides)) {
      if (!critical.has(name)) continue;
      const message = `must not name ${name}: the priority of a critical agent does not change`;
      found.push({ path: ["user_preferences", user, "agent_priority_overrides", name], message });
    }
  }
  return found;
}
