import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import type { Chance } from "../../support/runner/chance.ts";

export const AGENTS = ["music", "weather", "phone", "chat"] as const;
/** Flags that restrict floors, if their catalogue says so. */
export const RESTRICTING = ["quiet", "locked"] as const;

/** Agents that compete in every possible way. Their times are short, so that a history of a minute reaches them. */
export function drawCatalog(chance: Chance, shares?: true): Catalog {
  const isShared = chance.percent(50) || shares;
  const agents = AGENTS.map((name) => ({
    name,
    priority: chance.pick([10, 20, 20, 50, 90]),
    interruptible: chance.percent(70),
    ...(chance.percent(30) && { preemption_threshold: chance.pick([20, 60, 90]) }),
    when_blocked: chance.pick(["reject", "queue"]),
    ...(chance.percent(30) && { queue_timeout: "4s" }),
    when_busy: chance.pick(["reject", "enqueue", "interrupt"]),
    resume: chance.pick(["auto", "auto", "manual"]),
    ...(chance.percent(20) && { max_pause: chance.pick(["0ms", "6s"]) }),
    ...(chance.percent(20) && { resume_within: chance.pick(["500ms", "4s"]) }),
    ...(chance.percent(20) && { answer_within: "1s" }),
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
  if (!isShared) return makeCatalog(agents, { policy });
  const lease = chance.pick(["1s", "2s"]);
  const shared = agents.map((agent) => ({ ...agent, ...drawShared(chance), ...(chance.percent(30) && { lease }) }));
  return makeCatalog(shared, { policy, restrictions: chance.percent(50) ? drawRestrictions(chance) : [] });
}

/** How an agent's sessions are heard together with others. */
function drawShared(chance: Chance): Record<string, unknown> {
  const level = () => chance.pick([0, -6, -14, -24, "pause"]);
  const isCritical = chance.percent(12);
  const ducks = chance.percent(60);
  return {
    ...(chance.percent(60) && {
      beneath: { all: level(), ...(chance.percent(40) && { [chance.pick(AGENTS)]: level() }) },
    }),
    ...(ducks && { when_preempted: "duck" }),
    ...(ducks && chance.percent(50) && { when_blocked: chance.pick(["duck", ["duck", "queue"], ["queue", "duck"]]) }),
    ...(isCritical && { critical: true, when_blocked: "reject" }),
    ...(!isCritical && chance.percent(30) && { yields_to: AGENTS.filter(() => chance.percent(40)) }),
    ...(chance.percent(25) && { replaces: AGENTS.filter(() => chance.percent(40)) }),
    ...(chance.percent(25) && { max_hold: chance.pick(["400ms", "2s", "6s"]) }),
  };
}

const drawRestrictions = (chance: Chance) =>
  RESTRICTING.map((name, index) => ({
    name,
    when: name,
    allow: AGENTS.filter(() => chance.percent(50)),
    others: index === 0 ? chance.pick(["pause", "finish"]) : "stop",
  }));
