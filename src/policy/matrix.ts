import type { Contender } from "../actors/floor/contender.ts";
import { EMPTY_FLOOR, type FloorRules, restrictionOn } from "../actors/floor/floor-state.ts";
import { giveFront, letBeneath } from "../actors/floor/rearrangement.ts";
import type { AgentEntry, Catalog } from "../config/catalog/catalog.ts";
import type { Matrix, MatrixCell, MatrixDifference } from "../protocol/matrix.ts";
import { applyCircumstances, type Circumstances } from "./circumstances.ts";
import { decideAlone } from "./lone-contenders.ts";

/** The maximum number of agents that a matrix shows: it has a cell for each pair. */
const MAX_MATRIX_AGENTS = 100;

/** Why there is no matrix of a catalogue, as a sentence; undefined if there is one. */
export function whyNoMatrix({ agents }: Catalog): string | undefined {
  const enabled = [...agents.values()].filter((agent) => agent.enabled).length;
  if (enabled <= MAX_MATRIX_AGENTS) return undefined;
  return `a matrix shows at most ${MAX_MATRIX_AGENTS} agents, and ${enabled} are enabled`;
}

/**
 * Decide for each pair of agents: a session of one requests the floor while a session of the other holds it, alone.
 * Without circumstances it uses the agents' own priorities, without rules and users' overrides.
 */
export function matrixOf(catalog: Catalog, circumstances: Circumstances = {}): Matrix {
  const enabled = [...catalog.agents.values()].filter((agent) => agent.enabled);
  const applied = applyCircumstances(catalog, circumstances);
  return {
    agents: enabled.map((agent) => ({ id: agent.id, priority: applied.priorityOf(agent) })),
    rows: enabled.map((holder) => {
      const holding = applied.contender(holder, "holder", 1);
      return enabled.map((agent) => meet(holding, applied.contender(agent, "challenger", 2), agent, applied.rules));
    }),
  };
}

/**
 * What happens when `challenging`, a session of the agent `challenger`, requests the floor while `held` has it, alone.
 */
export function meet(
  holding: Contender,
  challenging: Contender,
  challenger: AgentEntry,
  rules: FloorRules,
): MatrixCell {
  const names = { holder: holding.agentId, challenger: challenger.id };
  const restriction = restrictionOn(holding, rules);
  if (restriction && restriction.others !== "finish") {
    return { ...names, rule: 9, reason: "restricted", effect: "restricted" };
  }
  const floor = { ...EMPTY_FLOOR, holder: holding };
  const { outcome, reason, rule, level } = decideAlone(holding, challenging, challenger, rules);
  const about = { ...names, rule: rule!, reason };
  if (outcome === "rejected") return { ...about, effect: "refused" };
  if (outcome === "queued") {
    const givesWay = rules.agents.get(holding.agentId)?.idleYields === true && reason !== "restricted";
    if (givesWay) return { ...about, effect: "follows" };
    return { ...about, effect: challenger.queueTimeoutMs === 0 ? "refused" : "waits" };
  }
  const { moves } = (reason === "beneath" ? letBeneath : giveFront)(floor, challenging, rules);
  const move = moves.find(({ contender: moved }) => moved.sessionId === holding.sessionId);
  if (move?.becomes === "ducked") return { ...about, effect: "ducks", level: move.level };
  if (move?.becomes === "archived") return { ...about, effect: "replaces" };
  if (move?.becomes === "paused") return { ...about, effect: "pauses" };
  return { ...about, effect: "beneath", level: level ?? 0 };
}

/** What a cell shows, as in `ducks -14`. */
export const wordOf = ({ effect, level }: MatrixCell): string => (level === undefined ? effect : `${effect} ${level}`);

/** What another catalogue would change in the matrix of this one. */
export function differenceOf(catalog: Catalog, other: Catalog, circumstances: Circumstances = {}): MatrixDifference {
  const [before, after] = [matrixOf(catalog, circumstances), matrixOf(other, circumstances)];
  const priorityIn = ({ agents }: Matrix) => new Map(agents.map(({ id, priority }) => [id, priority]));
  const [had, has] = [priorityIn(before), priorityIn(after)];
  const keyOf = ({ holder, challenger }: MatrixCell) => `${holder} ${challenger}`;
  const cells = new Map(after.rows.flat().map((cell) => [keyOf(cell), cell]));
  return {
    added: after.agents.filter(({ id }) => !had.has(id)),
    removed: before.agents.filter(({ id }) => !has.has(id)),
    priorities: before.agents.flatMap(({ id, priority }) => {
      const now = has.get(id);
      return now === undefined || now === priority ? [] : [{ id, before: priority, after: now }];
    }),
    cells: before.rows.flat().flatMap((cell) => {
      const now = cells.get(keyOf(cell));
      if (!now || wordOf(now) === wordOf(cell)) return [];
      return [{ holder: cell.holder, challenger: cell.challenger, before: cell, after: now }];
    }),
  };
}

/** The agents that come, go or change their priority, a line each. */
export function agentLines({ added, removed, priorities }: MatrixDifference): string[] {
  return [
    ...added.map(({ id, priority }) => `new agent: ${id} (${priority})`),
    ...removed.map(({ id, priority }) => `no longer an agent: ${id} (${priority})`),
    ...priorities.map(({ id, before, after }) => `${id}: priority ${before} → ${after}`),
  ];
}

/**
 * A difference in sentences, with at most `maxCells` lines of cells and as many of agents; the last line counts the
 * cells.
 */
export function differenceLines(difference: MatrixDifference, maxCells: number): string[] {
  const { cells } = difference;
  const changes = cells.map(({ holder, challenger, before, after }) => {
    return `${challenger} asks while ${holder} is heard: ${wordOf(before)} → ${wordOf(after)}`;
  });
  const count = cells.length === 1 ? "1 cell changes" : `${cells.length || "no"} cells change`;
  return [...atMost(agentLines(difference), maxCells), ...atMost(changes, maxCells), count];
}

function atMost(lines: readonly string[], most: number): readonly string[] {
  return lines.length > most ? [...lines.slice(0, most), `and ${lines.length - most} more`] : lines;
}
