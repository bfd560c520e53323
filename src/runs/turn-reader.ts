import type { Summary, Turn } from "../agents/agent.ts";
import type { MessageId, SessionId } from "../protocol/ids.ts";
import type { TurnTask } from "../protocol/internal/run.ts";
import { inTurnOrder } from "../protocol/turn-order.ts";
import { flow } from "../shared/flow.ts";
import type { MessageStore } from "../store/store.ts";

/** Messages of the conversation passed to an agent. */
const HISTORY_MESSAGES = 200;

/**
 * Read the turn of a run: the message to answer and the conversation before it, with replies that the store lists after
 * it because they were written while it waited, or by earlier attempts of this run.
 *
 * @param home the name of this worker's disk. A provider's session on another disk is left out, and the agent begins
 *   another
 * @returns undefined if the message to answer is gone
 */
export async function readTurn(
  store: MessageStore,
  sessionId: SessionId,
  task: TurnTask,
  home: string | undefined,
): Promise<Turn | undefined> {
  const { runId, attempt, messageId, workspaceId, approvedTools, providerHome, heardUpTo, summaryId, mode } = task;
  const input = await store.findMessage(sessionId, messageId);
  const page = input && (await store.listMessages(sessionId, { before: messageId, limit: HISTORY_MESSAGES }));
  const newest = input && (await store.listMessages(sessionId, { limit: HISTORY_MESSAGES }));
  if (!input || !page || !newest) return undefined;
  // Pages are limited in bytes: after a long conversation the oldest messages are left out.
  const later = newest.messages.slice(newest.messages.findIndex(({ id }) => id === messageId) + 1);
  const said = later.filter(({ role }) => role !== "user");
  const summary = await readSummary(store, sessionId, summaryId);
  const history = inTurnOrder([...page.messages, ...said]);
  flow.onHop?.("turn", `${input.id}, after ${history.length} messages`);
  const isReachable = providerHome === undefined || providerHome === home;
  const providerSessionId = isReachable ? task.providerSessionId : undefined;
  return {
    runId,
    attempt,
    sessionId,
    workspaceId,
    input,
    history,
    mode,
    summary,
    providerSessionId,
    heardUpTo,
    approvedTools,
  };
}

async function readSummary(
  store: MessageStore,
  sessionId: SessionId,
  summaryId: MessageId | undefined,
): Promise<Summary | undefined> {
  const message = summaryId && (await store.findMessage(sessionId, summaryId));
  return message?.summary && { text: message.content, upTo: message.summary.upTo };
}
