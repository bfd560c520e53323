/**
 * Leases. A session with a lease that is audible or waits for the floor loses its place when it gives no sign of life.
 * It lapses between 1 and 1.5 leases after the last one. The rules: docs/use/arbitration.md.
 *
 * When the deadline comes and a sign of life arrived meanwhile, the next deadline is one lease after that sign.
 * Otherwise the session gets half a lease more, and then lapses. That half counts from when the first deadline was
 * carried out, and not from the deadline as everything else does: after its node was away, the session has half a lease
 * to send a heartbeat to a node that is known to listen.
 */

import { later } from "../../shared/floor-time.ts";
import { agentOf, type SessionStep } from "./session-step.ts";

/** A fraction of a lease. A sign of life is committed only when this much has passed since the last committed one. */
const HALF = 0.5;

/** The session begins to compete. If it already competed, its lease is unchanged. */
export function beginLease(step: SessionStep): void {
  step.context.lapsed = undefined;
  const agent = agentOf(step);
  // A session whose agent has left the catalogue keeps the lease that it began with.
  if (!agent || agent.leaseMs === step.context.lease?.lengthMs) return;
  const { leaseMs: lengthMs } = agent;
  endLease(step);
  if (lengthMs !== undefined) restart(step, lengthMs);
}

/** The session no longer competes, or competes with another agent. */
export function endLease(step: SessionStep): void {
  step.context.lease = undefined;
}

/** A sign of life: a heartbeat, or any other command of the session. Most of them change nothing. */
export function renewLease({ context, given }: SessionStep): void {
  const { lease } = context;
  if (!lease) return;
  const { isDoubted, ...kept } = lease;
  if (!isDoubted && given.time - lease.signAt < lease.lengthMs * HALF) return;
  context.lease = { ...kept, renewedAt: given.now, signAt: given.time, isRenewed: true };
}

/**
 * A heartbeat. Its answer says how long the lease is, so only now a length that a new catalogue gives it applies: until
 * then the participant keeps to the former one.
 */
export function handleHeartbeat(step: SessionStep): void {
  if (step.context.lease) beginLease(step);
}

/** @returns whether the session lapses */
export function fireLease(step: SessionStep): boolean {
  const { context, given } = step;
  const lease = context.lease!;
  const { lengthMs, renewedAt, signAt, isRenewed, isDoubted } = lease;
  const agent = agentOf(step);
  if (agent && agent.leaseMs === undefined) {
    // A new catalogue has no lease for this agent.
    context.lease = undefined;
    return false;
  }
  if (lateBy(step) > lengthMs * HALF) {
    // The node was away, not the participant, so no heartbeat could arrive.
    restart(step, lengthMs);
    return false;
  }
  // Among several nodes the time may have gone back since the last sign of life.
  const restMs = Math.min(signAt + lengthMs - given.time, lengthMs);
  if (isRenewed && restMs > 0) {
    context.lease = { lengthMs, renewedAt, signAt, dueAt: later(given.time, restMs) };
    return false;
  }
  if (!isRenewed && isDoubted) {
    context.lease = undefined;
    context.lapsed = true;
    step.facts.push({ type: "lease.lapsed" });
    return true;
  }
  const dueAt = later(given.time, lateBy(step) + lengthMs * HALF);
  context.lease = { lengthMs, renewedAt, signAt, dueAt, isDoubted: true };
  return false;
}

const lateBy = ({ given }: SessionStep): number => given.lateMs ?? 0;

function restart(step: SessionStep, lengthMs: number): void {
  const { now, time } = step.given;
  const signAt = later(time, lateBy(step));
  step.context.lease = { lengthMs, renewedAt: now + lateBy(step), signAt, dueAt: later(signAt, lengthMs) };
}
