import { audible } from "../actors/floor/floor-state.ts";
import { restrictionsBy } from "../config/catalog/catalog.ts";
import type { PolicyClaim } from "../config/catalog/policy-claims.ts";
import type { AgentId } from "../protocol/ids.ts";
import { isAudibleState } from "../protocol/written-state.ts";
import { agentIdOf, heardEvents, type SeenStep, silencingsIn } from "./seen-step.ts";

/**
 * Per claim, by its index in the catalogue: the silenced sessions that should be audible again, each with whether
 * the session that it fell silent for has ended.
 */
export type Owed = ReadonlyMap<number, ReadonlyMap<string, boolean>>;

export interface BrokenClaim {
  readonly claim: PolicyClaim;
  /** What happens, as a sentence. */
  readonly what: string;
}

export const NOTHING_OWED: Owed = new Map();

/**
 * Compare a step with claims of the catalogue.
 * @returns what is owed after it, and the claims that it breaks
 */
export function checkClaims(
  step: SeenStep,
  owed: Owed,
  claims: readonly PolicyClaim[],
): { owed: Owed; broken: readonly BrokenClaim[] } {
  let next = owed;
  const broken: BrokenClaim[] = [];
  for (const [index, claim] of claims.entries()) {
    const { never, always } = claim;
    if (!never && !always) continue;
    if (always) {
      const was = next.get(index) ?? NO_SESSIONS;
      const now = owedAfter(always, step, was);
      if (now !== was) next = new Map([...next, [index, now]]);
    }
    const what = never ? breaksNever(never, step) : breaksAlways(always!, step, next.get(index) ?? NO_SESSIONS);
    if (what !== undefined) broken.push({ claim, what });
  }
  return { owed: next, broken };
}

const NO_SESSIONS: ReadonlyMap<string, boolean> = new Map();

/** Nothing is in the way any more: no session has the floor or is about to, and no restriction is on. */
function breaksAlways(
  { after, eventually }: NonNullable<PolicyClaim["always"]>,
  { after: floor }: SeenStep,
  owed: ReadonlyMap<string, boolean>,
): string | undefined {
  const { holder, reserved } = floor.context.floor;
  const isInTheWay = holder ?? reserved ?? restrictionsBy(floor.catalog, floor.context.flags, floor.now)[0];
  if (isInTheWay) return undefined;
  const isMissed = [...owed.values()].some((hasEnded) => hasEnded);
  return isMissed ? `${eventually} is not heard again after ${after} ends` : undefined;
}

type Never = NonNullable<PolicyClaim["never"]>;

const breaksNever = (never: Never, step: SeenStep): string | undefined =>
  never.rejected ? describeRejection(never, step) : describeSilence(never, step);

function describeRejection({ rejected, while_heard: whileHeard }: Never, step: SeenStep): string | undefined {
  for (const event of heardEvents(step)) {
    if (event.type !== "decision") continue;
    const { outcome, challenger, reason } = event.decision;
    if (outcome !== "rejected" || !rejected!.includes(challenger.agentId)) continue;
    // Claims do not cover what is refused to a disabled agent: neither its request, nor the end of its wait.
    if (!step.after.catalog.agents.get(challenger.agentId)?.enabled) continue;
    const heard = event.heard.map((id) => agentIdOf(step, id)!);
    const present = heard.find((agentId) => !whileHeard || whileHeard.includes(agentId as AgentId));
    if (whileHeard && present === undefined) continue;
    const beside = present === undefined ? "" : ` while ${present} is heard`;
    return `${challenger.agentId} is rejected${beside} (${reason})`;
  }
  return undefined;
}

/** Every session that falls silent counts, also if it ends or comes back in the same step. */
function describeSilence({ silenced, by: causes }: Never, step: SeenStep): string | undefined {
  for (const { transition } of silencingsIn(step)) {
    const { sessionId, by } = transition;
    const agentId = agentIdOf(step, sessionId)!;
    if (!by || !silenced!.includes(agentId as AgentId)) continue;
    if (!causes || causes.includes(by.agentId)) return `${agentId} is silenced by ${by.agentId}`;
  }
  return undefined;
}

/**
 * Sessions of `eventually` that fall silent while one of `after` is audible, until they are audible or their user acts.
 */
function owedAfter(
  { after, eventually }: NonNullable<PolicyClaim["always"]>,
  step: SeenStep,
  was: ReadonlyMap<string, boolean>,
): ReadonlyMap<string, boolean> {
  const audibleAfter = new Set<string>(audible(step.after.context.floor).map(({ sessionId }) => sessionId));
  const isMissed = (id: string) => !audibleAfter.has(id) && !isReplaced(id, step);
  const silenced = silencingsIn(step)
    .filter(({ causes }) => causes.some((id) => agentIdOf(step, id) === after))
    .map(({ transition }) => transition.sessionId)
    // A request comes before the silence that follows in its step: its user has not touched the session since.
    .filter((id) => agentIdOf(step, id) === eventually && (id !== step.subject || step.isRequest));
  if (was.size + silenced.length === 0) return was;
  // Nothing is expected of an agent that is disabled, nor of what it was when it is enabled again.
  if (!step.after.catalog.agents.get(eventually)?.enabled) return NO_SESSIONS;
  const ends = hasEnded(after, step);
  // One that is heard has come back, also if it gives way again in the same step.
  const risen = new Set(step.transitions.filter(({ to }) => isAudibleState(to)).map(({ sessionId }) => sessionId));
  const untouched = [...was].filter(([id]) => id !== step.subject && !risen.has(id));
  const all = new Map([...silenced.map((id) => [id, false] as const), ...untouched]);
  return new Map([...all].filter(([id]) => isMissed(id)).map(([id, due]) => [id, due || ends]));
}

/** A session that another one replaces, critical ones too, is not missed. */
const isReplaced = (id: string, { transitions }: SeenStep): boolean =>
  transitions.some(({ sessionId, by, to }) => sessionId === id && to === "archived" && by !== undefined);

const hasEnded = (agentId: string, step: SeenStep): boolean =>
  step.transitions.some(({ sessionId, to }) => to === "archived" && agentIdOf(step, sessionId) === agentId);
