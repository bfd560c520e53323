import type { Transition } from "../../src/protocol/event.ts";
import type { Routed } from "../../src/protocol/routed.ts";
import { decisionSentence, type SentenceContext, signOfDecision } from "../floor/decision-sentence.ts";
import { becauseOf } from "../parts/because.ts";
import { failureText } from "../words/failure-text.ts";
import type { LogEvent } from "./log-event.ts";

/** The shown part of a message, in UTF-16 units: a line has no room for more. */
const MAX_TEXT = 200;

/** An event in one line: the event and its reason. */
export interface EventLine {
  /** For sighted users only; screen readers skip it. */
  sign?: string;
  /** The event's name in the log. */
  name?: string;
  text: string;
}

export function lineOf(event: LogEvent, context: SentenceContext): EventLine {
  const { name, sign, text } = wordsOf(event, context);
  return { ...(name !== undefined && { name }), ...(sign !== undefined && { sign }), text: text.slice(0, MAX_TEXT) };
}

function transitionText(
  { from, to, by, activity, level, reason }: Transition,
  { say, agentName }: SentenceContext,
): string {
  const because = becauseOf(reason, say);
  const parts = [
    activity ? `${from} (${activity.from} → ${activity.to})` : `${from} → ${to}`,
    level === undefined ? "" : ` ${level} dB`,
    by ? ` · ${say("log.by", { who: agentName(by.agentId) })}` : "",
    because === undefined ? "" : ` · ${because}`,
  ];
  return parts.join("");
}

function routedText({ agent, by, row = 0, alternatives }: Routed, { say, agentName }: SentenceContext): string {
  const who = agent === undefined ? say("routed.nobody") : agentName(agent);
  const names = alternatives.map(agentName).join(", ");
  return [
    `${who} · ${say(`routed.${by}`, { row })}`,
    ...(names === "" ? [] : [say("routed.alternatives", { names })]),
  ].join(" · ");
}

function wordsOf(event: LogEvent, context: SentenceContext): EventLine {
  const { say, agentName } = context;
  switch (event.type) {
    case "arbitration":
      return { sign: signOfDecision(event.data), text: decisionSentence(event.data, context) };
    case "routed":
      return { name: "routed", text: routedText(event.data, context) };
    case "session_transition":
      return { name: event.data.event, text: transitionText(event.data, context) };
    case "session_created":
      return { name: "created", text: `${agentName(event.data.agentId)}: ${event.data.title}` };
    case "session_updated":
      return {
        name: "updated",
        text: event.data.title ?? event.data.summary ?? event.data.summaryFailure?.message ?? "",
      };
    case "agent_switched":
      return { name: "switch_agent", text: event.data.agentName };
    case "message": {
      const { role, content, summary } = event.data;
      return { name: summary ? "summary" : role, text: content };
    }
    case "tool_call":
      return { name: event.data.function.name, text: event.data.function.arguments };
    case "tool_result":
      return { name: event.data.toolName, text: `${event.data.status}: ${event.data.content}` };
    case "tool_confirmation_request":
      return { name: "confirm", text: event.data.toolCall.function.name };
    case "user_question_request":
      return { name: "ask", text: event.data.question };
    case "interaction_resolved":
      return { name: "resolved", text: say("log.by", { who: event.data.by }) };
    case "error":
      return {
        name: event.data.errorCode,
        text: failureText({ code: event.data.errorCode, message: event.data.message }, say),
      };
    case "complete":
      return {
        name: event.data.cancelled ? "cancelled" : "complete",
        text: say("session.tokens", { count: event.data.tokenCount }),
      };
    case "floor_updated": {
      const flags = Object.entries(event.data.flags).map(([flag, isSet]) => `${flag}: ${isSet}`);
      const reserved = event.data.reserved ? [`reserved: ${event.data.reserved.sessionId}`] : [];
      const restricted = event.data.restrictedBy?.map((name) => `restricted by: ${name}`) ?? [];
      return { name: "floor", text: [...flags, ...reserved, ...restricted].join(", ") };
    }
    case "data":
      return { name: "data", text: event.data.name };
    case "usage":
      return { name: event.type, text: "" };
    default:
      // A node of a later release may have written it.
      return { name: (event satisfies never as LogEvent).type, text: "" };
  }
}
