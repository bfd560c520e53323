// Rule C37 of docs/inside/correctness.md.
/**
 * Schedules: a session that has never had the floor asks for it at a time of the wall clock (rule C37). One with
 * `every` is a series: it never asks itself, but makes a session for each of its times, which asks at once.
 */

import type { LoggedData } from "../../protocol/event.ts";
import type { MessageId, RunId, SessionId } from "../../protocol/ids.ts";
import type { CommandOf, WantedSchedule } from "../../protocol/internal/command.ts";
import type { Schedule } from "../../protocol/session.ts";
import { changedSettings } from "../../protocol/session-settings.ts";
import { nextOf, parseCron } from "../../shared/cron.ts";
import type { Given } from "../facts.ts";
import { missTime, requestFloor } from "./floor-changes.ts";
import { newSession, type SessionContext } from "./session-context.ts";
import { answerWithSession, logEvent, refuseCommand, type SessionStep } from "./session-step.ts";

/** How many sessions of a floor may wait for their time. They are in its memory, and in its snapshot. */
export const MAX_SCHEDULES = 64;
/** How far ahead a time may be, in days. */
const MAX_AHEAD_DAYS = 1_830;
/** A time that has passed by no more than this is due at once, in ms: the request was under way. */
const JUST_PASSED_MS = 60_000;

/** Clocks that are read one after the other, or at two nodes, differ: by so many ms a time may come too early. */
export const READ_APART_MS = 5;

const DAY_MS = 86_400_000;

/** The schedule, or the issue with it. */
export function readSchedule(wanted: WantedSchedule, { wall }: Given): Schedule | { path: string; message: string } {
  const { at, inMs, every, timezone, content } = wanted;
  const rest = content === undefined ? {} : { content };
  if (every !== undefined && timezone !== undefined) {
    const next = nextTime(every, timezone, wall);
    if (next === undefined) return { path: "body.every", message: `is not due within ${MAX_AHEAD_DAYS} days` };
    return { at: next, every, timezone, ...rest };
  }
  const instant = at ?? wall + (inMs ?? 0);
  if (instant < wall - JUST_PASSED_MS)
    return { path: "body.at", message: `has passed: it is ${new Date(wall).toISOString()} now` };
  if (instant > wall + MAX_AHEAD_DAYS * DAY_MS)
    return { path: "body.at", message: `is more than ${MAX_AHEAD_DAYS} days ahead` };
  return { at: instant, ...rest };
}

function nextTime(every: string, timezone: string, after: number): number | undefined {
  const cron = parseCron(every);
  return typeof cron === "string" ? undefined : nextOf(cron, timezone, after, MAX_AHEAD_DAYS);
}

/** What a scheduled session accepts beside what every session does. */
const ALLOWED_WHEN_SCHEDULED = ["schedule", "archive", "stop", "switch_agent", "delete"];

/** A scheduled session cannot be started by hand. */
export function refuseScheduled(step: SessionStep): void {
  const message = "The session waits for its time. Change its schedule, or end it.";
  refuseCommand(step, "illegal_command", { message, facts: { allowed: ALLOWED_WHEN_SCHEDULED } });
}

/** `session.schedule`, which the arbiter has checked: the session gets a time, or another one. */
export function reschedule(step: SessionStep, { schedule: wanted }: CommandOf<"session.schedule">): void {
  const { context, given } = step;
  const content = wanted.content ?? context.schedule?.content;
  const schedule = readSchedule({ ...wanted, ...(content !== undefined && { content }) }, given);
  if ("message" in schedule) return refuseCommand(step, "bad_request", { facts: { issues: [schedule] } });
  Object.assign(context, scheduled(schedule, given));
  logEvent(step, "session_updated", { schedule });
  answerWithSession(step);
}

/** The fields of a session that gets this schedule. */
export function scheduled(schedule: Schedule, { stamp }: Given): Pick<SessionContext, "schedule" | "nextId"> {
  // What is carried out beside a command has a stamp of its own, whose signs an id may not have.
  return { schedule, nextId: stamp.replace("+", "_") };
}

/** The session's time has come: it asks for the floor, or its series makes the session that does. */
export function fireSchedule(step: SessionStep): void {
  const { context, given } = step;
  const { at, every, timezone } = context.schedule!;
  const fired = { at, lateMs: Math.max(0, given.wall - at) };
  if (every === undefined || timezone === undefined) return fireOnce(step, fired);
  const occurrence = occurrenceOf(step);
  // However many times have passed meanwhile, it makes one session, and goes on from now.
  const next = nextTime(every, timezone, Math.max(at, given.wall));
  const schedule = next === undefined ? undefined : { ...context.schedule!, at: next };
  Object.assign(context, schedule ? scheduled(schedule, given) : { schedule, nextId: undefined });
  logEvent(step, "session_updated", { fired: { ...fired, sessionId: occurrence.id }, ...(schedule && { schedule }) });
  step.toArbiter.push({ type: "occurs", occurrence, given });
}

function fireOnce(step: SessionStep, fired: LoggedData<"session_updated">["fired"]): void {
  const { context, given } = step;
  const { nextId, schedule } = context;
  const content = schedule?.content;
  context.schedule = undefined;
  context.nextId = undefined;
  logEvent(step, "session_updated", { fired });
  if (content === undefined) return requestFloor(step, undefined, true);
  const turn = { messageId: `${nextId}m` as MessageId, runId: `${nextId}r` as RunId, content };
  const refusal = given.refused?.get(turn.runId);
  if (!refusal) return requestFloor(step, turn, true);
  const { message, retryAfterMs } = refusal;
  missTime(step, turn, { errorCode: "budget_exhausted", message, retryAfterMs });
}

/** The session of a series for its present time. It is due already, so it asks next. */
function occurrenceOf({ context, given }: SessionStep): SessionContext {
  const { userId, zone, ownerId, workspaceId, numbers, untitled, nextId } = context;
  const { at, content } = context.schedule!;
  const sessionId = `${nextId}s` as SessionId;
  const settings = { ...changedSettings(context), ...(untitled && { title: undefined }) };
  const wanted = { sessionId, userId, zone, ownerId, workspaceId, ...settings };
  const fresh = newSession(wanted, context.floorId, { ...numbers, sessionId }, given.now);
  return { ...fresh, schedule: content === undefined ? { at } : { at, content }, nextId, series: context.id };
}
