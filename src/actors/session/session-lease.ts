import type { SessionLease } from "./session-context.ts";
import { agentOf, dropEffect, type SessionStep, startTimer } from "./session-step.ts";

/**
 * Leases. A session with a lease that is heard or waits for the floor loses its place when it gives no sign of life. It
 * lapses between 1 and 1.5 leases after the last one. The rules: docs/arbitration.md.
 *
 * A timer runs for one lease, and for the rest of the next lease if the session was renewed meanwhile. Otherwise a
 * second timer of half a lease decides. A session whose node was away thus has half a lease to send a heartbeat, during
 * which the node is known to listen.
 */

/** A fraction of a lease. A sign of life is committed only when this much has passed since the last committed one. */
const HALF = 0.5;

/** The session begins to compete. If it already competed, its lease is unchanged. */
export function beginLease(step: SessionStep): void {
  const lengthMs = agentOf(step)?.leaseMs;
  if (lengthMs === step.context.lease?.lengthMs) return;
  endLease(step);
  if (lengthMs !== undefined) restart(step, lengthMs);
}

/** The session no longer competes, or competes with another agent. */
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

/**
 * A heartbeat. Its answer says how long the lease is, so only now a length that a new catalogue gives it applies: until
 * then the participant keeps to the former one.
 */
export function takeHeartbeat(step: SessionStep): void {
  if (step.context.lease) beginLease(step);
}

/** @returns whether the session lapses */
export function fireLease(step: SessionStep): boolean {
  const { context, given } = step;
  const lease = context.lease!;
  const { lengthMs } = lease;
  if (agentOf(step)?.leaseMs === undefined) {
    // A new catalogue has no lease for this agent.
    context.lease = undefined;
    return false;
  }
  if (given.now - lease.dueAt > lengthMs * HALF) {
    // The node was away, not the participant, so no heartbeat could arrive.
    restart(step, lengthMs);
    return false;
  }
  const { renewedAt } = lease;
  // How late a timer fires may be by how much the clock has jumped, which must not shorten the lease.
  const firedAt = Math.min(given.now, lease.dueAt);
  const restMs = Math.min(renewedAt + lengthMs - firedAt, lengthMs);
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
