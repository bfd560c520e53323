import { PLACEHOLDERS } from "../../actors/floor/sayings.ts";
import type { AgentEntry, Catalog } from "../../config/catalog/catalog.ts";
import { quote } from "../../config/fault.ts";
import { suggest } from "../../config/nearest.ts";

/** Messages of decisions without a holder: of a grant there may be one, of a resume there is none. */
const WITHOUT_HOLDER = { granted: "there is none if the floor was free", resumed: "there is none" } as const;

/** Settings that do not do what they seem to: rules that never match or go too far, and words that are not replaced. */
export function findIdleSettings(catalog: Catalog): string[] {
  const agents = [...catalog.agents.values()].filter((agent) => agent.enabled);
  return [...findIdleRules(catalog, agents), ...agents.flatMap(findStrayPlaceholders)];
}

function findIdleRules({ priorityRules }: Catalog, enabled: readonly AgentEntry[]): string[] {
  return priorityRules.flatMap(({ name, agents: named, adjust, between }) => {
    const rule = `the rule ${quote(name)}`;
    if (adjust === 0) return [`${rule} changes nothing: its adjust is 0`];
    const meant = enabled.filter(({ id, critical }) => (named ? named.includes(id) : !critical));
    if (meant.length === 0) {
      return [`${rule} never matches: ${named ? `${named.join(", ")} cannot be used` : "every agent is critical"}`];
    }
    const isAllDay = between && between.fromMinute === between.toMinute;
    return [
      ...(isAllDay ? [`${rule} applies all day: its hours begin and end at the same time`] : []),
      ...(named ? meant : []).flatMap(({ id, priority }) => {
        const value = priority + adjust;
        if (value >= 0 && value <= 100) return [];
        return [`${rule} takes ${id} (${priority}) to ${value}, which counts as ${value < 0 ? 0 : 100}`];
      }),
    ];
  });
}

function findStrayPlaceholders({ id, messages }: AgentEntry): string[] {
  return Object.entries(messages).flatMap(([message, sentence]) => {
    const texts = typeof sentence === "string" ? [sentence] : Object.values(sentence ?? {});
    const used = new Set(texts.flatMap((text) => [...text.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => name!)));
    const without = Object.entries(WITHOUT_HOLDER).find(([key]) => key === message)?.[1];
    return [...used].flatMap((name) => {
      const place = `${id}'s message ${message}`;
      if (!PLACEHOLDERS.some((known) => known === name)) {
        return [
          `${place} says ${quote(`{${name}}`)} as it is: it is not a placeholder${suggest(name.trim(), PLACEHOLDERS)}`,
        ];
      }
      return without !== undefined && name.startsWith("holder") ? [`${place} names the holder, but ${without}`] : [];
    });
  });
}
