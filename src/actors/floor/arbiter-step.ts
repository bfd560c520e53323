import { type Catalog, restrictionsBy } from "../../config/catalog/catalog.ts";
import { hasHours, isDuring, nextChange } from "../../config/catalog/hours.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { LoggedData } from "../../protocol/event.ts";
import type { FloorId, SessionId } from "../../protocol/ids.ts";
import { type FloorTime, later } from "../../shared/floor-time.ts";
import { type Fact, type Given, type RefusalDetails, refusal } from "../facts.ts";
import type { SessionContext } from "../session/session-context.ts";
import type { SessionInput } from "../session/session-machine.ts";
import type { SessionEvent } from "../session/session-step.ts";
import type { Contender, Numbers } from "./contender.ts";
import { everyone, type Floor, type FloorRules, isEligible, reservationOf, rulesOf } from "./floor-state.ts";

/** The context of a floor's arbiter. */
export interface ArbiterContext {
  floorId: FloorId;
  floor: Floor;
  /** Context flags that `priority_rules` look at. */
  flags: Record<string, boolean>;
  /** The hash of the catalogue that the contenders have their numbers from; absent before the first event. */
  catalog?: string | undefined;
  /** Which restrictions with hours were in force at the last event; absent if the floor has no use for it. */
  hours?: FloorHours | undefined;
  /** How many times sessions asked, or more: of two sessions it tells which asked later. Absent before the first. */
  asked?: number | undefined;
}

/** For which time it is known which hours it is. */
export interface FloorHours {
  /** The names of the restrictions whose hours it is. */
  readonly inForce: readonly string[];
  /** From when until when nothing changes, in ms since 1970. */
  readonly since: number;
  readonly until: number;
  /** When that is in the floor's time. */
  readonly dueAt: FloorTime;
}

/** How far the floor's time and the wall clock may part before the end of the hours is found anew, in ms. */
const MAX_DRIFT_MS = 1_000;

/** Which hours it is on a floor with sessions; undefined if no restriction has hours. */
export function hoursOn(
  floor: Floor,
  { catalog, now, time }: Given,
  known: FloorHours | undefined,
): FloorHours | undefined {
  const timed = catalog.restrictions.length === 0 ? [] : catalog.restrictions.filter(hasHours);
  if (timed.length === 0 || everyone(floor).length === 0) return undefined;
  const until = nextChange(timed, now)!;
  const dueAt = later(time, until - now);
  const inForce = timed.filter((entry) => isDuring(entry, now)).map(({ name }) => name);
  const isKnown = known?.until === until && known.inForce.join() === inForce.join();
  const isInTime = known !== undefined && known.dueAt > time && Math.abs(known.dueAt - dueAt) < MAX_DRIFT_MS;
  return isKnown && isInTime ? known : { inForce, since: now, until, dueAt };
}

/**
 * Whether the holder gives way once nothing runs in its session (`idle_yields`): a session that may come up waits in
 * the queue, or asked while it was paused.
 */
export function givesWayWhenIdle({ floor, flags, hours }: ArbiterContext, catalog: Catalog): boolean {
  const { holder, queued, paused } = floor;
  if (!holder || catalog.agents.get(holder.agentId)?.idleYields !== true) return false;
  const waiting = [...queued, ...paused.filter(({ wants }) => wants)];
  if (waiting.length === 0) return false;
  // The hours of the floor's last event, which are those of now: it settles whenever they change.
  const isHour = (name: string) => hours?.inForce.includes(name) === true;
  const restrictions = restrictionsBy(catalog, flags, isHour);
  return waiting.some((contender) => isEligible(contender, { ...catalog, restrictions }));
}

/** What the arbiter sees of its floor's sessions. */
export interface SeenSessions {
  /** The context of a session that is not deleted. */
  sessionOf(sessionId: SessionId): SessionContext | undefined;
  /** How many sessions wait for their time. */
  scheduledCount(): number;
}

/** What one event does to a floor, while it is being decided: `arbitrate` edits it, its caller carries it out. */
export interface ArbiterStep {
  readonly given: Given;
  readonly floorId: FloorId;
  readonly sessions: SeenSessions;
  floor: Floor;
  flags: Record<string, boolean>;
  asked: number | undefined;
  readonly facts: Fact[];
  /** Carried out in this order, after the facts. */
  readonly orders: FloorOrder[];
  /** The reason of transitions when the floor settles after the event, if it is not that a place has become free. */
  cause?: string;
}

/** Start a session's machine, send it an event, or stop it. */
export type FloorOrder = { spawn: SessionInput } | { to: SessionId; event: SessionEvent } | { stop: SessionId };

/** Refuse the command. */
export function refuse(step: ArbiterStep, code: ErrorCode, details?: RefusalDetails): void {
  step.facts.push(refusal(code, details));
}

/** The floor's rules, with the restrictions that its flags and the time enable. */
export const currentRules = ({ given, flags }: ArbiterStep): FloorRules => rulesOf(given.catalog, flags, given.now);

/** A session that requests the floor now: its request is the floor's latest. */
export function newContender(step: ArbiterStep, numbers: Numbers, sessionId: SessionId): Contender {
  // Sessions that no longer compete have asked before it too.
  const askedAt = 1 + Math.max(step.asked ?? 0, ...everyone(step.floor).map((contender) => contender.askedAt));
  step.asked = askedAt;
  return { ...numbers, sessionId, askedAt };
}

/** The language of a session, as one of its numbers. */
export const floorLanguageOf = ({ locale }: { locale?: string | undefined }): Pick<Numbers, "locale"> =>
  locale === undefined ? {} : { locale };

/** Emit the floor's present flags, reservation and restrictions, and the catalogue if another one came. */
export function emitFloor(step: ArbiterStep, catalogue?: LoggedData<"floor_updated">["catalogue"]): void {
  const { flags, given } = step;
  const reserved = reservationOf(step.floor);
  const restrictedBy = given.catalog.restrictions.length > 0 && {
    restrictedBy: restrictionsBy(given.catalog, flags, given.now).map(({ name }) => name),
  };
  const data = { flags, ...(reserved && { reserved }), ...restrictedBy, ...(catalogue && { catalogue }) };
  step.facts.push({ type: "event", event: { type: "floor_updated", data } });
}
