// Rule C35 of docs/inside/correctness.md.
import type { Budget, Catalog } from "../../config/catalog/catalog.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { Command } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import { textIn } from "../../protocol/locale.ts";
import { type FloorTime, floorTimeOf, type JumpingClock, jumpOf } from "../../shared/floor-time.ts";
import type { BudgetCount, BudgetWindow, OverBudget, UsageCount, UsageStore } from "../../store/store.ts";
import type { BegunTurn, BudgetRefusal, CountedTurns, UsedTokens } from "../facts.ts";
import { NEW_TURN } from "./floor-actors.ts";

const DAY_MS = 86_400_000;
const KINDS = ["runs", "tokens"] as const;

/** What the changes of two floors count together. */
export const countedTogether = (one: CountedTurns, other: CountedTurns): CountedTurns => ({
  begun: [...one.begun, ...other.begun],
  used: [...one.used, ...other.used],
});

/** What it takes to count towards budgets. */
interface BudgetsOptions extends JumpingClock {
  store: Pick<UsageStore, "findWindows">;
  catalog: () => Catalog;
  metrics: { budgetSpent(per: Budget["per"]): void };
}

/** Turns of a batch that may not begin, because their commit would exceed budgets. */
export type RefusedTurns = ReadonlyMap<RunId, BudgetRefusal>;

/** What counts towards budgets of the catalogue; undefined if nothing does. */
export function countsOf(counted: CountedTurns, options: BudgetsOptions): BudgetCount[] | undefined {
  const catalog = options.catalog();
  if (catalog.budgets.length === 0 || counted.begun.length + counted.used.length === 0) return undefined;
  const counts = budgetCounts(catalog, counted, floorTimeOf(options));
  return counts.length > 0 ? counts : undefined;
}

/** A commit would exceed budgets: nothing was written. */
export class BudgetSpent extends Error {
  readonly refused: RefusedTurns;

  constructor(refused: RefusedTurns) {
    super("the commit would exceed a budget");
    this.name = "BudgetSpent";
    this.refused = refused;
  }

  /** These turns, and those that were refused before. @throws Error if that is nothing new */
  and(before: RefusedTurns = new Map()): RefusedTurns {
    const refused = new Map([...before, ...this.refused]);
    // Each time at least one more turn may not begin.
    if (refused.size === before.size) throw new Error("a turn began although its budget is used up");
    return refused;
  }
}

/** The error of a commit that would exceed budgets. */
export function spentBy({ begun }: CountedTurns, over: OverBudget, options: BudgetsOptions): BudgetSpent {
  const refused = refusedOf(over, begun, options);
  for (const { spent } of refused.values()) options.metrics.budgetSpent(spent.per);
  return new BudgetSpent(refused);
}

/** Refuse a command whose turn would begin and exceed a budget. */
export function refuseSpent(command: Command, refused: RefusedTurns): Reply | undefined {
  const refusal = "turn" in command && command.turn ? refused.get(command.turn.runId) : undefined;
  return refusal && replyToSpent(refusal);
}

/**
 * Why the turns of what-ifs would not begin: the commit of each alone would exceed a budget. The windows of all are
 * read at once.
 * @param previewed what each would count, by any key. Only a turn that begins at once counts
 */
export async function previewRefusals<Key>(
  previewed: ReadonlyMap<Key, CountedTurns>,
  options: BudgetsOptions,
): Promise<Map<Key, Reply>> {
  const refusals = new Map<Key, Reply>();
  const counts = new Map<Key, BudgetCount[]>();
  for (const [key, counted] of previewed) {
    const begins = counted.begun.some(({ runId }) => runId === NEW_TURN.runId);
    const own = begins ? countsOf(counted, options) : undefined;
    if (own) counts.set(key, own);
  }
  if (counts.size === 0) return refusals;
  const scopes = new Set([...counts.values()].flatMap((own) => own.map(({ scope }) => scope)));
  const windows = await options.store.findWindows([...scopes]);
  for (const [key, own] of counts) {
    const refusal = refusedOf(overBudget(own, windows), previewed.get(key)!.begun, options).get(NEW_TURN.runId);
    if (refusal) refusals.set(key, replyToSpent(refusal));
  }
  return refusals;
}

/** The reply to a turn that would exceed a budget. */
function replyToSpent({ message, retryAfterMs, spent }: BudgetRefusal): Reply {
  return { ok: false, code: "budget_exhausted", message, facts: { retryAfterMs, budget: spent } };
}

type Subject = Pick<BegunTurn, "ownerId" | "agentId">;

/** A limit of a budget, for one owner or agent. */
interface Limit {
  scope: string;
  budget: Budget;
  kind: (typeof KINDS)[number];
}

/** The limits that count what this agent does for this owner. */
function limitsOf(budgets: readonly Budget[], subject: Subject): Limit[] {
  return budgets
    .filter(({ agentId }) => agentId === undefined || agentId === subject.agentId)
    .flatMap((budget) =>
      KINDS.filter((kind) => budget[kind] !== undefined).map((kind) => {
        const { per, agentId = "*", withinMs } = budget;
        // A budget that is made larger or smaller goes on counting, so its limit is no part of the name.
        const scope = [kind, withinMs, per, agentId, per === "owner" ? subject.ownerId : subject.agentId].join(" ");
        return { scope, budget, kind };
      }),
    );
}

/** What a change adds to budgets, and up to which number. @param time of the commit */
function budgetCounts({ budgets }: Catalog, { begun, used }: CountedTurns, time: FloorTime): BudgetCount[] {
  const counts = new Map<string, BudgetCount>();
  const count = ({ scope, budget }: Limit, { ownerId }: Subject, add: number, max?: number) => {
    const owner = budget.per === "owner" ? { ownerId } : {};
    const known = counts.get(scope) ?? { scope, ...owner, withinMs: budget.withinMs, time, add: 0 };
    counts.set(scope, { ...known, add: known.add + add, ...(max !== undefined && { max }) });
  };
  for (const { usage, ...subject } of used) {
    for (const limit of limitsOf(budgets, subject)) {
      if (limit.kind === "tokens") count(limit, subject, usage.total_tokens);
    }
  }
  for (const turn of begun) {
    for (const limit of limitsOf(budgets, turn)) {
      // How many tokens a turn uses is known at its end, so it begins while one token is left.
      if (limit.kind === "tokens") count(limit, turn, 0, limit.budget.tokens! - 1);
      else count(limit, turn, 1, limit.budget.runs);
    }
  }
  return [...counts.values()];
}

/** Which counts would be above their `max` in the present windows, as a commit of them would find. */
const overBudget = (counts: readonly BudgetCount[], windows: readonly BudgetWindow[]): OverBudget => ({
  over: counts.flatMap(({ scope, time, withinMs, add, max }) => {
    const window = windows.find((each) => each.scope === scope && each.endsAt > time);
    const used = window?.used ?? 0;
    const freeAt = Math.min(window?.endsAt ?? time + withinMs, time + withinMs);
    return max === undefined || used + add <= max ? [] : [{ scope, room: Math.max(0, max - used), freeAt }];
  }),
});

/** The rows of usage that a change adds to. @param now ms since 1970 */
export function usageCounts({ begun, used }: CountedTurns, now: number): UsageCount[] {
  const counts = new Map<string, UsageCount>();
  const count = ({ ownerId, agentId }: Subject, runs: number, usage?: UsedTokens["usage"]) => {
    const key = `${agentId} ${ownerId}`;
    const known = counts.get(key);
    counts.set(key, {
      day: Math.floor(now / DAY_MS),
      ownerId,
      agentId,
      runs: (known?.runs ?? 0) + runs,
      input: (known?.input ?? 0) + (usage?.prompt_tokens ?? 0),
      output: (known?.output ?? 0) + (usage?.completion_tokens ?? 0),
      tokens: (known?.tokens ?? 0) + (usage?.total_tokens ?? 0),
    });
  };
  for (const turn of begun) count(turn, 1);
  for (const { usage, ...subject } of used) count(subject, 0, usage);
  return [...counts.values()];
}

/**
 * Which of the turns do not begin, because their commit would exceed budgets: those that came last, and all of a budget
 * of tokens.
 */
function refusedOf({ over }: OverBudget, begun: readonly BegunTurn[], options: BudgetsOptions): RefusedTurns {
  const catalog = options.catalog();
  const time = floorTimeOf(options);
  const now = time + jumpOf(options);
  const refused = new Map<RunId, BudgetRefusal>();
  const full = new Map(over.map((each) => [each.scope, { ...each }]));
  for (const turn of begun) {
    const spent = limitsOf(catalog.budgets, turn).flatMap(({ scope, budget, kind }) => {
      const window = full.get(scope);
      // Tokens of the same commit came first, so none of its turns has room, however much there was before.
      const hasRoom = !window || (kind === "runs" && window.room-- > 0);
      return hasRoom ? [] : [{ budget, kind, waitMs: Math.max(1, window.freeAt - time) }];
    });
    const [first] = spent;
    if (!first) continue;
    const last = spent.reduce((one, other) => (other.waitMs > one.waitMs ? other : one), first);
    refused.set(turn.runId, refusalOf(turn, last, catalog, now));
  }
  return refused;
}

function refusalOf(
  { agentId, locale }: BegunTurn,
  { budget, kind, waitMs }: { budget: Budget; kind: (typeof KINDS)[number]; waitMs: number },
  { agents }: Catalog,
  now: number,
): BudgetRefusal {
  const { per, withinMs } = budget;
  const about = budget.agentId === undefined ? {} : { agentId: budget.agentId };
  return {
    message: sentenceOf(budget, agents.get(agentId)?.label ?? agentId, waitMs, locale),
    retryAfterMs: waitMs,
    spent: { per, ...about, [kind]: budget[kind], withinMs, freeAt: now + waitMs },
  };
}

const UNITS = [
  { ms: DAY_MS, en: "day", zh: "天" },
  { ms: 3_600_000, en: "hour", zh: "小时" },
  { ms: 60_000, en: "minute", zh: "分钟" },
  { ms: 1_000, en: "second", zh: "秒" },
] as const;

/** The sentence that tells a person when the budget is free again. */
function sentenceOf({ per }: Budget, label: string, waitMs: number, locale: string | undefined): string {
  // Rounded up, so that nobody asks too early, and in a unit in which that adds little.
  const unit = UNITS.find(({ ms }) => waitMs >= 1.5 * ms) ?? UNITS.at(-1)!;
  const count = Math.ceil(waitMs / unit.ms);
  const when = { en: `${count} ${unit.en}${count === 1 ? "" : "s"}`, zh: `${count} ${unit.zh}` };
  const all =
    per === "owner"
      ? { en: `Your budget is used up. It is free again in ${when.en}.`, zh: `你的额度已用完，${when.zh}后恢复。` }
      : {
          en: `The budget of ${label} is used up. It is free again in ${when.en}.`,
          zh: `${label}的额度已用完，${when.zh}后恢复。`,
        };
  return textIn(all, locale);
}
