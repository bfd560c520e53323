/** Questions and confirmations. They belong to the session: any of its clients may answer, through any gateway. */

import { ERRORS } from "../../protocol/errors.ts";
import type { RequestId } from "../../protocol/ids.ts";
import { CONFIRMATION_OPTIONS, type Interaction } from "../../protocol/interaction.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import { dropUnconfirmed } from "./calls.ts";
import { lengthsOf, MAX_APPROVED_TOOLS, MAX_EXPIRED, type OpenInteraction, type Run } from "./session-context.ts";
import { answer, editRun, logEvent, refuseCommand, type SessionStep } from "./session-step.ts";

/** Add an interaction of the agent: each has an id, an event and a timeout. */
export function openInteractions(step: SessionStep, interactions: readonly Interaction[]): void {
  const run = editRun(step);
  const { now, time: since, catalog, interactionTimeoutMs } = step.given;
  const { answerWithinMs: ms = interactionTimeoutMs, answersWhileHeard } = lengthsOf(step.context, catalog);
  const limit = answersWhileHeard ? { audibleMs: ms } : { expiresAt: now + ms };
  for (const interaction of interactions) {
    if (run.interactions.some((pending) => pending.interaction.requestId === interaction.requestId)) continue;
    const { requestId } = interaction;
    run.interactions.push({ interaction, since });
    if (interaction.kind === "confirmation") {
      const { toolCall, isSensitive, options = CONFIRMATION_OPTIONS } = interaction;
      const data = { toolCall, isSensitive, availableOptions: [...options], ...limit };
      logEvent(step, "tool_confirmation_request", data, requestId);
    } else {
      const { question, options, multiSelect } = interaction;
      const data = { question, options, ...(multiSelect !== undefined && { multiSelect }), ...limit };
      logEvent(step, "user_question_request", data, requestId);
    }
  }
}

/** The session falls silent: note for how long its open interactions were heard, for `answer_within: { heard: … }`. */
export function countHeard(step: SessionStep): void {
  const { run, audibleSince } = step.context;
  if (audibleSince === undefined || !run || run.interactions.length === 0) return;
  const { time } = step.given;
  const edited = editRun(step);
  edited.interactions = run.interactions.map((each) => ({
    ...each,
    audibleMs: (each.audibleMs ?? 0) + time - Math.max(each.since, audibleSince),
  }));
}

/** The client messages that answer each kind. */
const ANSWERS = { confirmation: "tool_confirmation_response", question: "user_question_response" } as const;

/** `session.answer`: resolve one interaction. A second answer gets an error. */
export function resolveInteraction(step: SessionStep, command: CommandOf<"session.answer">): void {
  const { requestId, answer: chosen } = command;
  const pending = step.context.run?.interactions.find(({ interaction }) => interaction.requestId === requestId);
  if (!pending) return refuseAnswer(step, command);
  const { kind } = pending.interaction;
  if (kind !== chosen.kind) {
    return refuseCommand(step, "interaction_not_found", { message: `This request waits for a ${ANSWERS[kind]}.` });
  }
  if (!isOffered(pending.interaction, chosen)) {
    return refuseCommand(step, "interaction_not_found", { message: "This request has no such option." });
  }
  const fault = findFault(pending.interaction, chosen);
  if (fault !== undefined) return refuseCommand(step, "bad_request", { message: fault });
  const run = editRun(step);
  run.interactions = run.interactions.filter(({ interaction }) => interaction.requestId !== requestId);
  run.answers.push(chosen);
  if (
    chosen.kind === "confirmation" &&
    chosen.verdict === "approve_always" &&
    pending.interaction.kind === "confirmation"
  ) {
    const { toolCall, approves: tool = toolCall.function.name } = pending.interaction;
    step.context.approvedTools = [...new Set([...step.context.approvedTools, tool])].slice(-MAX_APPROVED_TOOLS);
  }
  logEvent(step, "interaction_resolved", { by: "client" }, requestId);
  step.facts.push({
    type: "signal",
    runId: run.id,
    signal: { signal: "answer", attempt: run.attempt, answer: chosen },
  });
  answer(step, { runId: run.id });
}

/** Whether the agent offered the option that the answer names, if it names one. */
function isOffered(interaction: Interaction, chosen: CommandOf<"session.answer">["answer"]): boolean {
  if (interaction.kind !== "confirmation" || chosen.kind !== "confirmation" || chosen.choice === undefined) return true;
  return interaction.options?.some(({ value }) => value === chosen.choice) === true;
}

/**
 * What is wrong with the options that an answer selects; undefined: nothing. The user's own words, as a text or as
 * `customInput`, answer every question.
 */
function findFault(interaction: Interaction, chosen: CommandOf<"session.answer">["answer"]): string | undefined {
  if (interaction.kind !== "question" || chosen.kind !== "question" || chosen.cancelled) return undefined;
  const { options, multiSelect } = interaction;
  const { selected, isText } = chosen;
  if (isText || options.length === 0) return undefined;
  const stray = selected.find((each) => !options.includes(each));
  if (stray !== undefined)
    return `The question has no option ${JSON.stringify(stray)}; the user's own words are a customInput.`;
  return selected.length > 1 && !multiSelect ? "The question takes one option." : undefined;
}

/** The agent no longer needs an answer. A later one is refused, as for any resolved interaction. */
export function withdrawInteraction(step: SessionStep, { requestId }: { requestId: RequestId }): void {
  const pending = step.context.run?.interactions.find(({ interaction }) => interaction.requestId === requestId);
  // An answer came first.
  if (!pending) return;
  const run = editRun(step);
  run.interactions = run.interactions.filter(({ interaction }) => interaction.requestId !== requestId);
  logEvent(step, "interaction_resolved", { by: "agent" }, requestId);
}

/** The run no longer waits for these of its interactions. `by`: why, for the clients that show them. */
export function resolveInteractions(
  step: SessionStep,
  run: Run,
  resolved: readonly OpenInteraction[],
  by: "abort" | "timeout",
): void {
  run.interactions = run.interactions.filter((pending) => !resolved.includes(pending));
  for (const { interaction } of resolved) {
    logEvent(step, "interaction_resolved", { by }, interaction.requestId);
    if (interaction.kind === "confirmation") dropUnconfirmed(step, run, interaction.toolCall.toolCallId);
  }
}

/** An interaction timed out: the run fails with that error. The interaction stays pending until then. */
export function expireInteraction(step: SessionStep, requestId: RequestId): void {
  const code = "interaction_timeout";
  const { text: message } = ERRORS[code];
  step.toSelf.push({ type: "fail", code, message, reason: code, expired: requestId, given: step.given });
}

/** Remember a timed-out interaction, so that a late answer gets a specific error. */
export function closeExpired(step: SessionStep, run: Run, requestId: RequestId): void {
  const expired = run.interactions.filter(({ interaction }) => interaction.requestId === requestId);
  resolveInteractions(step, run, expired, "timeout");
  step.context.expired = [...(step.context.expired ?? []), requestId].slice(-MAX_EXPIRED);
}

/** Refuse an answer to an interaction that is not pending. */
export function refuseAnswer(step: SessionStep, { requestId }: CommandOf<"session.answer">): void {
  refuseCommand(step, step.context.expired?.includes(requestId) ? "interaction_timeout" : "interaction_not_found");
}
