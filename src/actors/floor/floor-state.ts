import {
  type AgentEntry,
  type Catalog,
  type Policy,
  type Restriction,
  restrictionsBy,
} from "../../config/catalog/catalog.ts";
import type { Reservation } from "../../protocol/floor.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { FloorTime } from "../../shared/floor-time.ts";
import type { Contender, DuckedContender, Numbers, QueuedContender } from "./contender.ts";

/** `since`: when it began, in the floor's time. `until`: when its session is woken, in ms since 1970, for readers. */
export interface ReservedFloor {
  readonly sessionId: SessionId;
  readonly since: FloorTime;
  readonly until: number;
}

/** The sessions that compete for one floor. At most one `holder`, and none while the floor is `reserved`. */
export interface Floor {
  readonly holder?: Contender | undefined;
  /** The session that will be woken after `resume_delay`. It is still listed in `ducked`, `paused` or `queued`. */
  readonly reserved?: ReservedFloor | undefined;
  /**
   * The sessions audible beneath the holder, highest priority first. Without a holder, only while the floor is
   * reserved.
   */
  readonly ducked: readonly DuckedContender[];
  /** The preempted sessions, most recently paused first. */
  readonly paused: readonly Contender[];
  /** The sessions that wait, longest waiting first. */
  readonly queued: readonly QueuedContender[];
}

export const EMPTY_FLOOR: Floor = { ducked: [], paused: [], queued: [] };

/** The rules of a floor: the catalogue, and the restrictions that are in force. */
export interface FloorRules {
  readonly policy: Policy;
  readonly agents: ReadonlyMap<string, AgentEntry>;
  readonly restrictions: readonly Restriction[];
}

/**
 * The rules of a floor with these flags.
 * @param now ms since 1970; absent: no restriction with hours is in force
 */
export function rulesOf(catalog: Catalog, flags: Readonly<Record<string, boolean>>, now?: number): FloorRules {
  const { policy, agents } = catalog;
  return { policy, agents, restrictions: restrictionsBy(catalog, flags, now) };
}

/** The sessions that are audible, the holder first. */
export function audible({ holder, ducked }: Floor): Contender[] {
  return holder ? [holder, ...ducked] : [...ducked];
}

/** All competing sessions: the holder, then ducked, paused and queued sessions. */
export function everyone(floor: Floor): Contender[] {
  return [...audible(floor), ...floor.paused, ...floor.queued];
}

/** The contender as `holder` and `paused` store it: without what the other lists add. */
export function plainContender(contender: Contender): Contender {
  const { level: _l, queuedAt: _q, wants: _w, ...rest } = contender as DuckedContender & QueuedContender;
  return rest;
}

/** The floor without these sessions. */
export function without(floor: Floor, sessionIds: readonly SessionId[]): Floor {
  const gone = new Set(sessionIds);
  const stays = (contender: Contender) => !gone.has(contender.sessionId);
  return {
    ...floor,
    holder: floor.holder && stays(floor.holder) ? floor.holder : undefined,
    ducked: floor.ducked.filter(stays),
    paused: floor.paused.filter(stays),
    queued: floor.queued.filter(stays),
  };
}

/** The contender of the session for which the floor is reserved. */
export function reservedContender({ reserved, ducked, paused, queued }: Floor): Contender | undefined {
  return reserved && [...ducked, ...paused, ...queued].find((contender) => contender.sessionId === reserved.sessionId);
}

/** The session in front: the holder, or the one for which the floor is reserved. */
export const frontOf = (floor: Floor): Contender | undefined => floor.holder ?? reservedContender(floor);

/** The states of the arbiter's machine. */
export const ARBITER_STATES = ["free", "held", "reserved"] as const;

export function arbiterStateOf({ holder, reserved }: Floor): (typeof ARBITER_STATES)[number] {
  if (holder) return "held";
  return reserved ? "reserved" : "free";
}

/** The floor's reservation as clients see it. */
export function reservationOf({ reserved }: Floor): Reservation | undefined {
  return reserved && { sessionId: reserved.sessionId, until: reserved.until };
}

/**
 * Whether a session with these numbers ends the other one when it gets a place that excludes it (rule R). Only a
 * critical session ends a critical one (invariant 11).
 */
export function replaces(
  { agentId, priority, critical }: Numbers,
  other: Contender,
  { agents }: Pick<FloorRules, "agents">,
): boolean {
  if (other.priority > priority || (other.critical && !critical)) return false;
  return agents.get(agentId)?.replaces.includes(other.agentId) === true;
}

/** The restriction that keeps a session from coming up; none for critical sessions. */
export function restrictionOn(
  { agentId, critical, finishes }: Pick<Contender, "agentId" | "critical" | "finishes">,
  { restrictions }: Pick<FloorRules, "restrictions">,
): Restriction | undefined {
  if (critical) return undefined;
  return restrictions.find(({ name, allow }) => !allow.includes(agentId) && !finishes?.includes(name));
}

/** Whether a restriction ends the sessions that it forbids. */
export const endsOthers = ({ others }: Restriction): boolean => others === "stop";

/** Rule E: whether a silent session may come up: its agent answers, and no restriction forbids it. */
export function isEligible(contender: Contender, rules: FloorRules): boolean {
  return rules.agents.get(contender.agentId)?.enabled === true && !restrictionOn(contender, rules);
}

/** Whether a preempted session resumes by itself. */
export function comesBack(contender: Contender, rules: FloorRules): boolean {
  const isWanted = contender.critical || contender.wants || rules.agents.get(contender.agentId)?.resume !== "manual";
  return isWanted && isEligible(contender, rules);
}

/** Whether a session that has not been heard may start beneath another. */
export const startsBeneath = (
  { agentId, critical }: Pick<Contender, "agentId" | "critical">,
  { agents }: Pick<FloorRules, "agents">,
): boolean => critical === true || agents.get(agentId)?.whenBlocked.includes("duck") === true;
