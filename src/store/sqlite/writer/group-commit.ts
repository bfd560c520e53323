// Rule C5 of docs/inside/correctness.md.
import { isFailure, type Result, type WriteFailure } from "./writer-job.ts";

/** Runs jobs in one transaction: all become durable, each with its own outcome, or none does. */
export type Transact<Job, Outcome> = (jobs: readonly Job[]) => Outcome[] | WriteFailure;

/**
 * Run jobs of many floors in one transaction. If one of them makes it fail, each runs again in a transaction of its
 * own, so that no job fails because of another (rule C5).
 */
export function commitGroup<Job, Outcome>(jobs: readonly Job[], transact: Transact<Job, Outcome>): Result<Outcome>[] {
  const outcomes = transact(jobs);
  if (!isFailure(outcomes)) return outcomes;
  // If the engine fails for all of them, it would fail for each one.
  if (outcomes.fault === "engine" || jobs.length === 1) return jobs.map(() => outcomes);
  return jobs.flatMap((job) => commitGroup([job], transact));
}
