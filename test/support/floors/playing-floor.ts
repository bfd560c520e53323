import type { Fact } from "../../../src/actors/facts.ts";
import { EXAMPLE_AGENTS, makeCatalog } from "../catalogs/catalog.ts";
import { FloorStage } from "./floor-stage.ts";

/** The entry of a scripted adapter. */
export const scripted = (changes: Record<string, unknown> = {}) => ({ kind: "scripted", ...changes });

/** A catalogue whose music agent has other keys than in the examples. */
export const withMusic = (changes: Record<string, unknown>) =>
  makeCatalog(EXAMPLE_AGENTS.map((agent) => (agent["name"] === "music" ? { ...agent, ...changes } : agent)));

/** A floor whose music session runs `m1`, which is claimed and streaming. */
export function playing(changes: Record<string, unknown> = {}): FloorStage {
  const floor = new FloorStage(withMusic(changes));
  floor.create("music");
  floor.chat("music", "m1");
  floor.claim("music", "run-m1");
  say(floor, 1, "la la");
  return floor;
}

/** Music as the author of a message. */
export const author = { kind: "master" as const, name: "music", depth: 0, path: ["music"] };

/** Report number `n` of an attempt at `m1`, with more text of its message. */
export function say(floor: FloorStage, n: number, text: string, attempt = 1): ReturnType<FloorStage["report"]> {
  const messageId = `a${attempt}`;
  return floor.report("music", "run-m1", n, {
    attempt,
    parts: [
      { kind: "open", messageId, agent: author },
      { kind: "append", messageId, offset: 0, text },
    ],
  });
}

/** The messages that a step finished, each with its status. */
export const closed = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "draft.close" ? [`${fact.messageId} ${fact.close.status}`] : []));

/** The runs that a step requested. */
export const requestedRuns = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "effect.add" && fact.effect.kind === "run" ? [fact.effect] : []));

/** The ids of the effects that a step removed. */
export const withdrawn = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "effect.remove" ? [fact.id] : []));
