import type { Fact } from "../../../src/actors/facts.ts";
import { EXAMPLE_AGENTS, makeCatalog } from "../catalogs/catalog.ts";
import { FloorStage } from "./floor-stage.ts";

/** The ends of an attempt, in its last report. */
export const DONE = { outcome: { kind: "done" } } as const;
export const REFUSED = { outcome: { kind: "failed", code: "provider_refused", message: "no" } } as const;
export const LOST = { outcome: { kind: "lost", yielded: false } } as const;
export const YIELDED = { outcome: { kind: "lost", yielded: true } } as const;

/** The entry of a scripted adapter. */
export const scripted = (changes: Record<string, unknown> = {}) => ({ kind: "scripted", ...changes });

/** A catalogue whose music agent has other keys than in the examples. */
export const withMusic = (changes: Record<string, unknown>) =>
  makeCatalog(EXAMPLE_AGENTS.map((agent) => (agent["name"] === "music" ? { ...agent, ...changes } : agent)));

/** A floor whose music session runs `m1`, which is claimed and streaming. */
export const playing = (changes: Record<string, unknown> = {}) => sung(new FloorStage(withMusic(changes)));

/** The floor, with a music session that runs `m1` and has written `la la`. */
export function sung(floor: FloorStage): FloorStage {
  floor.create("music");
  floor.chat("music", "m1");
  floor.claim("music", "run-m1");
  say(floor, 1, "la la");
  return floor;
}

/** Music as the author of a message. */
export const author = { kind: "master" as const, name: "music", depth: 0, path: ["music"] };

/** Report number `n` of the first attempt at `m1`, with more text of its message. */
export const say = (floor: FloorStage, n: number, text: string) =>
  floor.report("music", "run-m1", n, {
    parts: [
      { kind: "open", messageId: "a1", agent: author },
      { kind: "append", messageId: "a1", offset: 0, text },
    ],
  });

/** The messages that a step finished, each with its status. */
export const closed = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "draft.close" ? [`${fact.messageId} ${fact.close.status}`] : []));

/** The runs that a step requested. */
export const requestedRuns = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "run_request.add" && fact.request.kind === "run" ? [fact.request] : []));

/** The ids of the run requests that a step removed. */
export const withdrawn = (facts: readonly Fact[]) =>
  facts.flatMap((fact) => (fact.type === "run_request.remove" ? [fact.id] : []));
