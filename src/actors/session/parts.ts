import type { Interaction } from "../../protocol/interaction.ts";
import type { ReportPart } from "../../protocol/internal/run.ts";
import { addUsage, type Message } from "../../protocol/message.ts";
import { addTokens, type Run } from "./session-context.ts";
import type { SessionStep } from "./session-step.ts";
import { countText } from "./summaries.ts";

/** Apply the parts of a report to the session. */

export function takePart(step: SessionStep, run: Run, part: ReportPart, asked: Interaction[]): void {
  const { context, facts, given } = step;
  const sessionId = context.id;
  switch (part.kind) {
    case "open": {
      if (run.drafts.includes(part.messageId)) return;
      run.drafts.push(part.messageId);
      context.messageCount += 1;
      countText(step, "", true);
      const message: Message = {
        id: part.messageId,
        sessionId,
        role: "assistant",
        content: "",
        status: "running",
        agent: part.agent,
        runId: run.id,
        createdAt: given.now,
        startedAt: given.now,
      };
      facts.push({ type: "draft.open", message });
      return;
    }
    case "append":
      if (!run.drafts.includes(part.messageId)) return;
      run.spoke = true;
      countText(step, part.text, false);
      facts.push({ type: "draft.append", sessionId, ...part });
      return;
    case "close": {
      if (!run.drafts.includes(part.messageId)) return;
      const { kind: _, messageId, ...rest } = part;
      run.drafts = run.drafts.filter((id) => id !== messageId);
      facts.push({ type: "draft.close", sessionId, messageId, close: { ...rest, finishedAt: given.now } });
      return;
    }
    case "tool_call":
      run.spoke = true;
      facts.push({ type: "event", event: { type: "tool_call", sessionId, data: { ...part.call, agent: part.agent } } });
      return;
    case "tool_result": {
      const { kind: _, ...data } = part;
      facts.push({ type: "event", event: { type: "tool_result", sessionId, data } });
      return;
    }
    case "ask":
      run.spoke = true;
      asked.push(part.interaction);
      return;
    case "usage":
      run.usage = addUsage(run.usage, part.usage);
      context.tokenUsage = addTokens(context.tokenUsage, part.usage);
      facts.push({
        type: "event",
        event: { type: "usage", sessionId, data: { ...part.usage, ...(part.agent && { agent: part.agent }) } },
      });
      return;
    case "provider_session": {
      const homes = withEntry(context.agentHomes ?? {}, run.agentId, part.home);
      context.agentHomes = Object.keys(homes).length > 0 ? homes : undefined;
      const messageId = part.id === undefined ? undefined : run.messageId;
      context.agentHeard = withEntry(context.agentHeard ?? {}, run.agentId, messageId);
      if (context.agentSessions[run.agentId] === part.id) return;
      context.agentSessions = withEntry(context.agentSessions, run.agentId, part.id);
      facts.push({
        type: "event",
        event: { type: "session_updated", sessionId, data: { agentSessions: context.agentSessions } },
      });
      return;
    }
    case "log":
      facts.push({ type: "log", sessionId, messageId: part.messageId, runId: run.id, line: part.line });
      return;
    case "data":
      facts.push({
        type: "event",
        event: { type: "data", sessionId, data: { name: part.name, data: part.data, agent: part.agent } },
      });
  }
}

/** Agents whose provider session is remembered. A session's view lists them, so their number is bounded. */
const MAX_AGENTS = 16;

/** The record with this entry last, or without it. Beyond the bound, the oldest entry is dropped. */
function withEntry(record: Record<string, string>, key: string, value: string | undefined): Record<string, string> {
  const { [key]: _, ...rest } = record;
  if (value === undefined) return rest;
  const kept = Object.entries(rest).slice(1 - MAX_AGENTS);
  return Object.fromEntries([...kept, [key, value]]);
}
