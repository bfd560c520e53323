import type { Catalog } from "../../src/config/catalog.ts";
import { makeCatalog } from "../support/catalog.ts";
import type { Chance } from "../support/chance.ts";

export const AGENTS = ["music", "weather", "phone", "chat"] as const;

/** Agents that compete in every way there is. Times are short, so that a history of a minute meets them. */
export function drawCatalog(chance: Chance): Catalog {
  const agents = AGENTS.map((name) => ({
    name,
    priority: chance.pick([10, 20, 20, 50, 90]),
    interruptible: chance.percent(70),
    ...(chance.percent(30) && { preemption_threshold: chance.pick([20, 60, 90]) }),
    when_blocked: chance.pick(["reject", "queue"]),
    ...(chance.percent(30) && { queue_timeout: "4s" }),
    when_busy: chance.pick(["reject", "enqueue", "interrupt"]),
    resume: chance.pick(["auto", "auto", "manual"]),
    ...(chance.percent(20) && { max_pause: "6s" }),
    ...(chance.percent(30) && { idle_timeout: "3s" }),
    after_turn: chance.pick(["keep", "keep", "yield", "archive"]),
    adapter: { kind: "scripted", yields: chance.pick(["hold", "abort"]), restartable: chance.percent(50) },
  }));
  const policy = {
    ties: chance.pick(["reject", "newest"]),
    resume_delay: chance.pick(["0ms", "0ms", "700ms"]),
    max_paused: chance.pick([1, 2, 32]),
    max_queued: chance.pick([0, 1, 16]),
  };
  return makeCatalog(agents, { policy });
}
