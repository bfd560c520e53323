import type { Interaction } from "../../protocol/interaction.ts";
import type { PartOf, ReportPart } from "../../protocol/internal/run.ts";
import { addUsage, type Message } from "../../protocol/message.ts";
import { closeCall, openCall } from "./calls.ts";
import { countTokens, noteAct, noteProgram, noteText } from "./runs.ts";
import type { Run } from "./session-context.ts";
import { logEvent, type SessionStep } from "./session-step.ts";
import { countText } from "./summaries.ts";

/** Agents whose provider session is remembered. A session's view lists them, so their number is bounded. */
const MAX_AGENTS = 16;

/**
 * Apply a part of a report to the session.
 * @param run the run of the step, to edit
 * @param opened gets the interaction of an `ask`: those of a report are opened together
 */
export function applyPart(step: SessionStep, run: Run, part: ReportPart, opened: Interaction[]): void {
  const { context, facts } = step;
  const sessionId = context.id;
  switch (part.kind) {
    case "open":
      return openMessage(step, run, part);
    case "append":
      return appendText(step, run, part);
    case "close":
      return closeMessage(step, run, part);
    case "tool_call":
      noteAct(step, run, part.agent.name);
      return openCall(step, run, part);
    case "tool_result":
      return closeCall(step, run, part);
    case "ask":
      noteAct(step, run, run.agentId);
      opened.push(part.interaction);
      return;
    case "usage":
      run.usage = addUsage(run.usage, part.usage);
      countTokens(step, run.agentId, part.usage);
      return logEvent(step, "usage", { ...part.usage, ...(part.agent && { agent: part.agent }) });
    case "provider_session":
      return keepProviderSession(step, run, part);
    case "log":
      noteProgram(step, run, run.agentId);
      facts.push({ type: "log", sessionId, messageId: part.messageId, runId: run.id, line: part.line });
      return;
    case "data":
      noteProgram(step, run, part.agent.name);
      return logEvent(step, "data", { name: part.name, data: part.data, agent: part.agent });
  }
}

function openMessage(step: SessionStep, run: Run, { messageId, agent }: PartOf<"open">): void {
  if (run.drafts.includes(messageId)) return;
  noteProgram(step, run, agent.name);
  const { context, facts, given } = step;
  run.drafts.push(messageId);
  if (agent.kind === "master") {
    run.replyId = messageId;
    context.newest = { runId: run.id, messageId };
  }
  context.messageCount += 1;
  countText(step, "", true);
  const message: Message = {
    id: messageId,
    sessionId: context.id,
    role: "assistant",
    content: "",
    status: "running",
    agent,
    runId: run.id,
    createdAt: given.now,
    startedAt: given.now,
  };
  facts.push({ type: "draft.open", message });
}

function appendText(step: SessionStep, run: Run, part: PartOf<"append">): void {
  if (!run.drafts.includes(part.messageId)) return;
  noteText(step, run);
  countText(step, part.text, false);
  step.facts.push({ type: "draft.append", sessionId: step.context.id, ...part });
}

function closeMessage({ context, facts, given }: SessionStep, run: Run, part: PartOf<"close">): void {
  if (!run.drafts.includes(part.messageId)) return;
  const { kind: _, messageId, ...rest } = part;
  run.drafts = run.drafts.filter((id) => id !== messageId);
  if (run.replyId === messageId) run.replyId = undefined;
  if (part.status === "error") run.hasFailed = true;
  const close = { ...rest, finishedAt: given.now };
  facts.push({ type: "draft.close", sessionId: context.id, messageId, close });
}

/** Remember the conversation that the agent's provider keeps, for the agent's next run. */
function keepProviderSession(step: SessionStep, run: Run, { id, home }: PartOf<"provider_session">): void {
  const { context } = step;
  const { agentId } = run;
  const homes = withEntry(context.agentHomes ?? {}, agentId, home);
  context.agentHomes = Object.keys(homes).length > 0 ? homes : undefined;
  const heardUpTo = id === undefined ? undefined : run.messageId;
  context.agentHeard = withEntry(context.agentHeard ?? {}, agentId, heardUpTo);
  if (context.agentSessions[agentId] === id) return;
  context.agentSessions = withEntry(context.agentSessions, agentId, id);
  logEvent(step, "session_updated", { agentSessions: context.agentSessions });
}

/** The record with this entry last, or without it. Beyond the bound, the oldest entry is dropped. */
function withEntry(record: Record<string, string>, key: string, value: string | undefined): Record<string, string> {
  const { [key]: _, ...rest } = record;
  if (value === undefined) return rest;
  const kept = Object.entries(rest).slice(1 - MAX_AGENTS);
  return Object.fromEntries([...kept, [key, value]]);
}
