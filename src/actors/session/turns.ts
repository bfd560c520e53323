/** Turns: when a turn starts, when it waits, and what a session does between turns. */

import { type AgentEntry, acceptsTurns } from "../../config/catalog/catalog.ts";
import type { MessageId, RunId, SessionId } from "../../protocol/ids.ts";
import type { CommandOf, TurnInput } from "../../protocol/internal/command.ts";
import type { Message, MessageStatus } from "../../protocol/message.ts";
import { cutText, toOneLine } from "../../shared/text.ts";
import { cancelRun, complete, noteFailure, startRun, type TurnFailure } from "./runs.ts";
import { isAudible, lengthsOf, MAX_TURNS, NO_USAGE, type QueuedTurn } from "./session-context.ts";
import { agentOf, answer, type InternalEvent, logEvent, refuseCommand, type SessionStep } from "./session-step.ts";
import { cancelSummary, countText } from "./summaries.ts";

type Turn = Extract<InternalEvent, { type: "turn" }>;

/** The longest title taken from a message, in UTF-16 units, ellipsis included. */
const TITLE_UNITS = 60;
/** How much of a message is examined: more than a title holds, because a message may begin with white space. */
const LOOKED_AT_UNITS = 1_024;

/** A message of the user, as its row and its event show it. */
export function userMessage(sessionId: SessionId, input: TurnInput, status: MessageStatus, createdAt: number): Message {
  const { messageId: id, content, images, parts, runId } = input;
  const more = { ...(images && { images }), ...(parts && { parts }) };
  return { id, sessionId, role: "user", content, ...more, status, runId, createdAt };
}

function addUserMessage(step: SessionStep, input: TurnInput, status: MessageStatus): void {
  const { context, given } = step;
  step.facts.push({ type: "message.add", message: userMessage(context.id, input, status, given.now) });
  context.messageCount += 1;
  context.lastActivityAt = given.now;
  countText(step, input.content, true);
  if (context.untitled) nameAfter(step, input.content);
}

/** Title an untitled session after its first message with words. */
function nameAfter(step: SessionStep, content: string): void {
  const title = titleOf(content);
  if (title === undefined) return;
  step.context.title = title;
  step.context.untitled = undefined;
  logEvent(step, "session_updated", { title });
}

/** A title from a message's first words, cut between words; undefined if the message has none. */
function titleOf(content: string): string | undefined {
  const line = toOneLine(cutText(content, LOOKED_AT_UNITS));
  if (line === "") return undefined;
  if (line.length <= TITLE_UNITS) return line;
  const cut = cutText(line, TITLE_UNITS - 1);
  // Text without spaces, and very long words, are cut at the limit.
  const word = line[cut.length] === " " ? cut.length : cut.lastIndexOf(" ");
  return `${word > TITLE_UNITS / 2 ? cut.slice(0, word) : cut}…`;
}

/** Whether a new turn is refused because of the turn that runs, or of those that wait. */
function isTooBusy(step: SessionStep): boolean {
  const { run, turns } = step.context;
  const whenBusy = agentOf(step)?.whenBusy ?? "reject";
  return (run !== undefined && whenBusy === "reject") || turns.length >= MAX_TURNS;
}

/** The commands that an external session accepts instead of turns. */
const ALLOWED_WHEN_EXTERNAL = ["activate", "pause", "resume", "archive", "stop", "switch_agent", "delete", "heartbeat"];

/** An external agent accepts no turns. @returns whether the turn was refused */
function refuseIfExternal(step: SessionStep): boolean {
  const agent = agentOf(step);
  if (!agent || acceptsTurns(agent)) return false;
  refuseCommand(step, "illegal_command", {
    message: externalAcceptsNoTurns(agent),
    facts: { allowed: ALLOWED_WHEN_EXTERNAL },
  });
  return true;
}

/** The sentence that refuses a turn of an external agent. */
export const externalAcceptsNoTurns = ({ label }: AgentEntry): string => `${label} is external: it takes no turns.`;

/** @returns whether a new turn was refused, because of the agent or because of turns that run or wait */
export function refuseIfExternalOrBusy(step: SessionStep): boolean {
  if (refuseIfExternal(step)) return true;
  if (!isTooBusy(step)) return false;
  refuseCommand(step, "agent_busy");
  return true;
}

/** Take a turn on an active session without a run. Turns that waited for the floor go first. */
export function beginTurn(step: SessionStep, { turn, input, decision }: Turn): void {
  step.context.idleSince = undefined;
  if (input) {
    interruptTurns(step);
    refuseTurns(step);
  }
  const [first] = step.context.turns;
  if (input && first) {
    queueTurn(step, input, decision);
    step.context.turns = step.context.turns.filter((waiting) => waiting !== first);
    return beginTurn(step, { type: "turn", turn: first, given: step.given });
  }
  if (input) {
    addUserMessage(step, input, "success");
    answer(step, { ...about(turn), ...(decision && { decision }) });
  } else {
    const { id: sessionId } = step.context;
    step.facts.push({ type: "message.status", sessionId, messageId: turn.messageId, status: "success" });
  }
  startRun(step, turn);
}

/** Take a turn on an active session with a run: `when_busy` decides. `refuseIfExternalOrBusy` has found room for it. */
export function overlapTurn(step: SessionStep, { turn, input, decision }: Turn): void {
  if (!input) throw new Error("a waiting turn begins although a run is under way");
  if (agentOf(step)?.whenBusy === "enqueue") return queueTurn(step, input, decision);
  const interrupted = interruptTurns(step);
  addUserMessage(step, input, "success");
  step.context.turns = [{ ...turn, at: step.given.now }, ...step.context.turns];
  answer(step, { ...about(turn), ...(decision && { decision }), ...interrupted });
}

/** Queue the turn until the run ends, or the session has the floor. `refuseIfExternalOrBusy` has found room for it. */
export function queueTurn(step: SessionStep, input: TurnInput, decision?: Turn["decision"]): void {
  const interrupted = interruptTurns(step);
  addUserMessage(step, input, "queued");
  const { messageId, runId } = input;
  step.context.turns = [...step.context.turns, { messageId, runId, at: step.given.now }];
  answer(step, { ...about(input), ...(decision && { decision }), ...interrupted });
}

/**
 * If the agent's turns interrupt each other, a new one ends the run and what waits, at once and in every state: also a
 * run that is held, that begins again with the resume, or that waits for a person.
 * @returns for the answer, what was interrupted
 */
function interruptTurns(step: SessionStep): { interrupted?: { runId: RunId; messageId: MessageId } } {
  if (agentOf(step)?.whenBusy !== "interrupt") return {};
  dropTurns(step, "interrupted");
  const { run } = step.context;
  if (!run) return {};
  step.toSelf.push({ type: "abort", reason: "interrupted", given: step.given });
  return { interrupted: { runId: run.id, messageId: run.drafts.at(-1) ?? run.messageId } };
}

const about = ({ messageId, runId }: Pick<TurnInput, "messageId" | "runId">) => ({ messageId, runId });

/** Fail the turns that would begin now and may not, because a budget is used up. @returns whether there were any */
function refuseTurns(step: SessionStep): boolean {
  const { refused } = step.given;
  if (!refused) return false;
  const before = step.context.turns.length;
  for (const { runId } of step.context.turns) {
    const refusal = refused.get(runId);
    if (!refusal) continue;
    const { message, retryAfterMs } = refusal;
    const failure = { errorCode: "budget_exhausted", message, retryAfterMs } as const;
    dropTurns(step, failure, (turn) => turn.runId === runId);
  }
  return step.context.turns.length < before;
}

/** Begin the turn that has waited longest. @returns false if no turn waits */
export function beginWaitingTurn(step: SessionStep): boolean {
  const isRefused = refuseTurns(step);
  const [next, ...rest] = step.context.turns;
  if (!next) {
    if (isRefused) applyAfterTurn(step, false);
    return isRefused;
  }
  step.context.turns = rest;
  step.toSelf.push({ type: "turn", turn: next, given: step.given });
  return true;
}

/** An audible session without a run: begin the next turn, or do what its agent does between turns. */
export function beginNext(step: SessionStep): void {
  // Only the holder releases the floor after `idle_timeout`.
  if (beginWaitingTurn(step) || step.context.level !== undefined) return;
  step.context.idleSince = step.given.time;
}

/**
 * Archive a session that ends with its last turn, if that turn has ended. What a series made, and still waits to be
 * heard, has nothing left to say without it, and would stay for ever.
 * @returns whether it ends
 */
export function endWithTurn(step: SessionStep): boolean {
  const { endsWithTurn, run, turns, series, queuedAt } = step.context;
  const isUnheard = series !== undefined && queuedAt !== undefined;
  if (!(endsWithTurn || isUnheard) || run || turns.length > 0) return false;
  step.toSelf.push({ type: "archive", reason: "after_turn", given: step.given });
  return true;
}

/**
 * A turn has ended, so `after_turn` applies, unless another turn waits. Only a turn that is done archives the session:
 * after any other end it yields, so that the message can be sent again.
 */
export function applyAfterTurn(step: SessionStep, isDone: boolean): void {
  const { context, given } = step;
  if (endWithTurn(step)) return;
  const { afterTurn = "keep" } = lengthsOf(context, given.catalog);
  if (context.turns.length > 0 || afterTurn === "keep") return isAudible(context) ? beginNext(step) : undefined;
  if (afterTurn === "archive" && isDone) step.toSelf.push({ type: "archive", reason: "after_turn", given });
  else if (isAudible(context) || context.pausedBy === "preemption" || context.queuedAt !== undefined)
    step.toSelf.push({ type: "yield", reason: "after_turn", given });
}

/** `session.withdraw`: remove a turn that has not begun. */
export function withdrawTurn(step: SessionStep, { messageId }: CommandOf<"session.withdraw">): void {
  const turn = step.context.turns.find((waiting) => waiting.messageId === messageId);
  if (!turn) return refuseCommand(step, "illegal_command", { message: "Only a queued message can be withdrawn." });
  removeTurn(step, turn);
  answer(step, { deleted: true });
}

/** `session.abort` for another run than the present turn's: withdraw its turn if it is queued, or end the summary. */
export function abortOther(step: SessionStep, { runId }: CommandOf<"session.abort">): void {
  const { turns, summarizing } = step.context;
  const turn = turns.find((queued) => queued.runId === runId);
  if (turn) removeTurn(step, turn);
  else if (summarizing && summarizing.id === runId) cancelSummary(step);
  answer(step, {});
}

function removeTurn(step: SessionStep, turn: SessionStep["context"]["turns"][number]): void {
  const { context } = step;
  context.turns = context.turns.filter((waiting) => waiting !== turn);
  context.messageCount -= 1;
  step.facts.push({ type: "message.remove", sessionId: context.id, messageId: turn.messageId });
  complete(step, turn.runId, NO_USAGE, { cancelled: true, withdrawn: true });
  if (!context.run) applyAfterTurn(step, false);
}

/** Drop queued turns, all or those of these: their messages stay, their runs end, and one that failed says why. */
export function dropTurns(
  step: SessionStep,
  why: "interrupted" | TurnFailure,
  isDropped: (turn: QueuedTurn) => boolean = () => true,
): void {
  const sessionId = step.context.id;
  for (const { messageId, runId } of step.context.turns.filter(isDropped)) {
    const status = why === "interrupted" ? why : "error";
    step.facts.push({ type: "message.status", sessionId, messageId, status });
    if (why !== "interrupted") noteFailure(step, runId, why);
    complete(step, runId, NO_USAGE, { cancelled: true });
  }
  step.context.turns = step.context.turns.filter((turn) => !isDropped(turn));
}

/** End the run and all queued turns. Reports in flight are still accepted (rule C12). */
export function endWork(step: SessionStep): void {
  cancelRun(step);
  dropTurns(step, "interrupted");
  step.context.idleSince = undefined;
}
