import type { SessionLease } from "./session-context.ts";
import { dropEffect, type SessionStep, startTimer } from "./session-step.ts";

/**
 * Leases: a session whose agent has one, and that is heard or waits for the floor, gives its place up when it is not heard
 * from. It lapses between 1 and 1.5 leases after its last sign of life. The rules: docs/arbitration.md.
 *
 * A timer runs for a lease, and if the session was renewed meanwhile, for the rest of the next one. Otherwise a second
 * timer, of half a lease, decides: so a session that could not be heard because its node was away has half a lease, in
 * which the node demonstrably listens, to say that it lives.
 */

/** Of a lease. A sign of life is committed only when this much has passed since the last that was. */
const HALF = 0.5;

const agentOf = (step: SessionStep) => step.given.catalog.agents.get(step.context.claim.agentId);

/** The session begins to compete. One that competed before keeps its lease as it is. */
export function beginLease(step: SessionStep): void {
  const lengthMs = agentOf(step)?.leaseMs;
  if (lengthMs === step.context.lease?.lengthMs) return;
  endLease(step);
  if (lengthMs !== undefined) restart(step, lengthMs);
}

/** The session does not compete any more, or with another agent. */
export function endLease(step: SessionStep): void {
  dropEffect(step, step.context.lease?.timerId);
  step.context.lease = undefined;
}

/** A sign of life: a heartbeat, or any other command of the session. Most of them change nothing. */
export function renewLease({ context, given }: SessionStep): void {
  const { lease } = context;
  if (!lease) return;
  const { isDoubted, ...kept } = lease;
  if (!isDoubted && given.now - lease.renewedAt < lease.lengthMs * HALF) return;
  context.lease = { ...kept, renewedAt: given.now, isRenewed: true };
}

/** @returns whether the session lapses */
export function fireLease(step: SessionStep): boolean {
  const { context, given } = step;
  const lease = context.lease!;
  const lengthMs = agentOf(step)?.leaseMs;
  if (lengthMs === undefined) {
    // A new catalogue does without.
    context.lease = undefined;
    return false;
  }
  if (given.now - lease.dueAt > lengthMs * HALF) {
    // No heartbeat could arrive: the node was away, not the participant.
    restart(step, lengthMs);
    return false;
  }
  const { renewedAt } = lease;
  const restMs = renewedAt + lengthMs - given.now;
  if (lease.isRenewed && restMs > 0) {
    arm(step, { lengthMs, renewedAt }, restMs);
    return false;
  }
  if (!lease.isRenewed && lease.isDoubted) {
    context.lease = undefined;
    return true;
  }
  arm(step, { lengthMs, renewedAt, isDoubted: true }, lengthMs * HALF);
  return false;
}

function restart(step: SessionStep, lengthMs: number): void {
  arm(step, { lengthMs, renewedAt: step.given.now }, lengthMs);
}

function arm(step: SessionStep, lease: Omit<SessionLease, "timerId" | "dueAt">, delayMs: number): void {
  const timerId = startTimer(step, "lease", delayMs);
  step.context.lease = { ...lease, timerId, dueAt: step.given.now + delayMs };
}
