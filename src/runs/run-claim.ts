// Rule C10 of docs/inside/correctness.md.
import type { Bus } from "../bus/bus.ts";
import type { RunId } from "../protocol/ids.ts";
import { writeMessage } from "../protocol/internal/bus-message.ts";
import type { Command } from "../protocol/internal/command.ts";
import { runTopic } from "../protocol/internal/floor-message.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import type { RunSignal, RunTask } from "../protocol/internal/run.ts";
import type { RunRequest } from "../protocol/internal/run-request.ts";
import { flow } from "../shared/flow.ts";
import type { Clock } from "../shared/ports/clock.ts";

/** How long a worker waits for an answer from the run's present driver, in ms (rule C10). */
const WHO_DRIVES_MS = 250;

export interface RunClaimOptions {
  bus: Bus;
  /** The store's epoch. */
  epoch: string;
  clock: Clock;
  newId: () => string;
  /** The name of this worker's node. */
  worker?: string | undefined;
  /** Sends a command to the run request's floor. */
  send: (runRequest: RunRequest, command: Command) => Promise<Reply>;
}

/**
 * Claim a run, of a turn or a summary, from its floor. If another worker claimed it before, all workers are asked for
 * its driver, and silence makes this claim the next attempt.
 * @returns undefined if the floor refuses
 */
export async function requestTask(runRequest: RunRequest, options: RunClaimOptions): Promise<RunTask | undefined> {
  const { sessionId, runId } = runRequest;
  const { send, newId, worker } = options;
  const command = { type: "run.claim" as const, sessionId, runId, claimId: newId(), ...(worker && { worker }) };
  let reply = await send(runRequest, { ...command, hasNoDriver: false });
  if (reply.ok && reply.isClaimed && !(await isDriven(runId, options))) {
    reply = await send(runRequest, { ...command, hasNoDriver: true });
  }
  const task = reply.ok ? reply.task : undefined;
  flow.onHop?.("claim", task ? `attempt ${task.attempt} of ${runId}` : `${runId} is not wanted`);
  return task;
}

/** Ask all workers whether one of them drives the run. */
async function isDriven(runId: RunId, { bus, epoch, newId, clock }: RunClaimOptions): Promise<boolean> {
  const replyTo = `driver.${newId()}`;
  const answered = Promise.withResolvers<boolean>();
  const subscription = await bus.subscribe(replyTo, () => answered.resolve(true));
  await bus.publish(runTopic(epoch, runId), writeMessage({ signal: "who", replyTo } satisfies RunSignal));
  const silence = clock.after(WHO_DRIVES_MS, () => answered.resolve(false));
  try {
    return await answered.promise;
  } finally {
    silence.cancel();
    subscription.end();
  }
}
