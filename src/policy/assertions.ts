import { audible } from "../actors/floor/floor-state.ts";
import { type Catalog, restrictionsBy } from "../config/catalog/catalog.ts";
import type { PolicyAssertion } from "../config/catalog/policy-assertions.ts";
import type { AgentId } from "../protocol/ids.ts";
import { type ExploredMove, makeMove } from "./moves.ts";
import { agentIdOf, heardEvents, type SeenStep, silencingsIn } from "./seen-step.ts";
import type { SteppedFloor } from "./stepped-floor.ts";

/** Per assertion, by its index in the catalogue: the silenced sessions that should be audible again. */
export type Owed = ReadonlyMap<number, ReadonlySet<string>>;

export interface BrokenAssertion {
  readonly assertion: PolicyAssertion;
  /** What happens, as a sentence. */
  readonly what: string;
  /** Moves after the step, which show it. */
  readonly tail: readonly ExploredMove[];
}

export const NOTHING_OWED: Owed = new Map();

/** After so many moves, a session that should be audible again counts as silent. */
const MAX_FUTURE = 64;

/** Compare a step with the catalogue's assertions. */
export function checkAssertions(
  step: SeenStep,
  owed: Owed,
  catalog: Catalog,
): { owed: Owed; broken?: BrokenAssertion } {
  let next = owed;
  for (const [index, assertion] of catalog.assertions.entries()) {
    const { never, always } = assertion;
    if (always) {
      const was = next.get(index) ?? NO_SESSIONS;
      const now = owedAfter(always, step, was);
      if (now !== was) next = new Map([...next, [index, now]]);
    }
    const broken = never ? breaksNever(never, step) : breaksAlways(always!, step, next.get(index) ?? NO_SESSIONS);
    if (broken) return { owed: next, broken: { assertion, ...broken } };
  }
  return { owed: next };
}

const NO_SESSIONS: ReadonlySet<string> = new Set();

type Breach = Omit<BrokenAssertion, "assertion">;
type Never = NonNullable<PolicyAssertion["never"]>;

function breaksAlways(
  { after, eventually }: NonNullable<PolicyAssertion["always"]>,
  step: SeenStep,
  owed: ReadonlySet<string>,
): Breach | undefined {
  const tail = hasEnded(after, step) ? findSilence(eventually, owed, step.after) : undefined;
  return tail && { what: `${eventually} is not heard again after ${after} ends`, tail };
}

function breaksNever(never: Never, step: SeenStep): Breach | undefined {
  const what = never.rejected ? describeRejection(never, step) : describeSilence(never, step);
  return what === undefined ? undefined : { what, tail: [] };
}

function describeRejection({ rejected, while_heard: whileHeard }: Never, step: SeenStep): string | undefined {
  for (const event of heardEvents(step)) {
    if (event.type !== "decision") continue;
    const { outcome, challenger, rule, reason } = event.decision;
    // Rule 1 refuses disabled agents. Assertions do not cover these refusals.
    if (outcome !== "rejected" || rule === 1 || !rejected!.includes(challenger.agentId)) continue;
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
  { after, eventually }: NonNullable<PolicyAssertion["always"]>,
  step: SeenStep,
  was: ReadonlySet<string>,
): ReadonlySet<string> {
  const audibleAfter = new Set<string>(audible(step.after.context.floor).map(({ sessionId }) => sessionId));
  const isMissed = (id: string) => id !== step.subject && !audibleAfter.has(id) && !isReplaced(id, step);
  const left = [...was].filter(isMissed);
  const silenced = silencingsIn(step)
    .filter(({ others }) => others.some((id) => agentIdOf(step, id) === after))
    .map(({ transition }) => transition.sessionId)
    .filter((id) => agentIdOf(step, id) === eventually && isMissed(id));
  const now = new Set([...left, ...silenced]);
  return now.size === was.size && left.length === was.size ? was : now;
}

/** A session that another one replaces is not missed. */
const isReplaced = (id: string, { transitions }: SeenStep): boolean =>
  transitions.some(({ sessionId, reason, to }) => sessionId === id && to === "archived" && reason === "replaced");

const hasEnded = (agentId: string, step: SeenStep): boolean =>
  step.transitions.some(({ sessionId, to }) => to === "archived" && agentIdOf(step, sessionId) === agentId);

/**
 * Let what is in the way end, one after the other: the holder, a reservation, restrictions.
 * @returns the moves, if none of the sessions and no other of the agent is audible at their end
 */
function findSilence(
  agentId: string,
  owed: ReadonlySet<string>,
  from: SteppedFloor,
): readonly ExploredMove[] | undefined {
  if (owed.size === 0 || from.catalog.agents.get(agentId)?.enabled !== true) return undefined;
  const moves: ExploredMove[] = [];
  let floor = from;
  for (let count = 0; count < MAX_FUTURE; count++) {
    if (audible(floor.context.floor).some((contender) => contender.agentId === agentId)) return undefined;
    const move = removeObstacle(floor);
    if (!move) return moves;
    moves.push(move);
    floor = makeMove(floor, move).after;
  }
  return moves;
}

function removeObstacle(floor: SteppedFloor): ExploredMove | undefined {
  const { holder, reserved } = floor.context.floor;
  if (holder) return { does: "ends", sessionId: holder.sessionId };
  if (reserved) return { does: "wait" };
  const restrictions = restrictionsBy(floor.catalog, floor.context.flags, floor.now);
  const flag = restrictions.find(({ when }) => when !== undefined)?.when;
  if (flag !== undefined) return { does: "clear", flag };
  return restrictions.length > 0 && floor.nextDue() !== undefined ? { does: "wait" } : undefined;
}
