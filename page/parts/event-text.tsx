import type { ReactNode } from "react";
import { DecisionText } from "../floor/decisions.tsx";
import type { LogEvent } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";
import { becauseOf } from "./because.ts";

/** The shown part of a written text, in UTF-16 units: a line has no room for more. */
const MAX_TEXT = 200;

/** An event as a line: what happened, and why. */
export function EventText({ event }: { event: LogEvent }): ReactNode {
  const { say } = useWords();
  const { agentName } = useHere();
  switch (event.type) {
    case "arbitration":
      return <DecisionText decision={event.data} />;
    case "session_transition": {
      const { from, to, event: verb, by, activity, level, reason } = event.data;
      const because = becauseOf(reason, say);
      const parts = [
        activity ? ` ${from} (${activity.from} → ${activity.to})` : ` ${from} → ${to}`,
        level === undefined ? "" : ` ${level} dB`,
        by ? ` · ${say("log.by", { who: agentName(by.agentId) })}` : "",
        because === undefined ? "" : ` · ${because}`,
      ];
      // One text: the browser shapes a line anew for each of its texts that changes.
      return (
        <>
          <code>{verb}</code>
          {parts.join("")}
        </>
      );
    }
    case "session_created":
      return <Line name="created" text={`${agentName(event.data.agentId)}: ${event.data.title}`} />;
    case "session_updated":
      return <Line name="updated" text={event.data.title ?? event.data.summary ?? ""} />;
    case "agent_switched":
      return <Line name="switch_agent" text={event.data.agentName} />;
    case "message":
      return <Line name={event.data.role} text={event.data.content} />;
    case "tool_call":
      return <Line name={event.data.function.name} text={event.data.function.arguments} />;
    case "tool_result":
      return <Line name={event.data.toolName} text={`${event.data.status}: ${event.data.content}`} />;
    case "tool_confirmation_request":
      return <Line name="confirm" text={event.data.toolCall.function.name} />;
    case "user_question_request":
      return <Line name="ask" text={event.data.question} />;
    case "interaction_resolved":
      return <Line name="resolved" text={say("log.by", { who: event.data.by })} />;
    case "error":
      return <Line name={event.data.errorCode} text={event.data.message} />;
    case "complete":
      return <Line name={event.data.cancelled ? "cancelled" : "complete"} text={`${event.data.tokenCount} tokens`} />;
    case "floor_updated": {
      const flags = Object.entries(event.data.flags).map(([name, isSet]) => `${name}: ${isSet}`);
      const reserved = event.data.reserved ? [`reserved: ${event.data.reserved.sessionId}`] : [];
      return <Line name="floor" text={[...flags, ...reserved].join(", ")} />;
    }
    case "data":
      return <Line name="data" text={event.data.name} />;
    default:
      return <code>{event.type}</code>;
  }
}

const Line = ({ name, text }: { name: string; text: string }) => (
  <>
    <code>{name}</code>
    {` ${text.slice(0, MAX_TEXT)}`}
  </>
);
