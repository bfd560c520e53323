/**
 * The calls of tools that the current attempt has begun. Each call of a log has a result, also if its attempt ends
 * first.
 */

import type { PartOf } from "../../protocol/internal/run.ts";
import { MAX_OPEN_CALLS, type OpenCall, type Run } from "./session-context.ts";
import { logEvent, type SessionStep } from "./session-step.ts";

export function openCall(step: SessionStep, run: Run, { call, agent }: PartOf<"tool_call">): void {
  const { toolCallId, function: named } = call;
  run.calls = [...(run.calls ?? []), { toolCallId, toolName: named.name, agent }].slice(-MAX_OPEN_CALLS);
  logEvent(step, "tool_call", { ...call, agent });
}

export function closeCall(step: SessionStep, run: Run, { kind: _, ...result }: PartOf<"tool_result">): void {
  forget(run, result.toolCallId);
  logEvent(step, "tool_result", result);
}

/** The attempt ends before the user has confirmed the call. */
export function dropUnconfirmed(step: SessionStep, run: Run, toolCallId: string): void {
  const call = run.calls?.find((open) => open.toolCallId === toolCallId);
  if (call) endCall(step, run, call, "The call did not begin: the turn ended before it was confirmed.");
}

/** The attempt ends before these calls do. */
export function cutCalls(step: SessionStep, run: Run): void {
  for (const call of run.calls ?? []) {
    endCall(step, run, call, "The turn ended before the call did. What the call has done is not known.");
  }
}

function endCall(step: SessionStep, run: Run, call: OpenCall, content: string): void {
  forget(run, call.toolCallId);
  logEvent(step, "tool_result", { ...call, content, status: "error" });
}

function forget(run: Run, toolCallId: string): void {
  const left = run.calls?.filter((call) => call.toolCallId !== toolCallId);
  run.calls = left?.length ? left : undefined;
}
