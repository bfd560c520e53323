import type { LoggedServerEvent } from "../../client/server-event.ts";

/** What a replay needs of an event, and nothing that was said. Empty: it does not need the event. */
export function withoutWords(event: LoggedServerEvent): LoggedServerEvent[] {
  switch (event.type) {
    case "session_created": {
      const { title: _, summary: __, ...data } = event.data;
      return [{ ...event, data: { ...data, title: "" } } as LoggedServerEvent];
    }
    case "message": {
      const { id, sessionId, role, status, runId, createdAt } = event.data;
      const data = { id, sessionId, role, status, createdAt, content: "", streaming: false, ...(runId && { runId }) };
      return role === "user" ? [{ ...event, data } as LoggedServerEvent] : [];
    }
    case "tool_call": {
      const { function: called } = event.data;
      return [{ ...event, data: { ...event.data, function: { ...called, arguments: "{}" } } }];
    }
    case "user_question_request":
      return [{ ...event, data: { ...event.data, question: "", options: [] } }];
    case "tool_confirmation_request": {
      const { toolCall } = event.data;
      const called = { ...toolCall, function: { ...toolCall.function, arguments: "{}" } };
      return [{ ...event, data: { ...event.data, toolCall: called } }];
    }
    case "session_transition":
    case "arbitration":
    case "agent_switched":
    case "interaction_resolved":
    case "complete":
    case "floor_updated":
      return [event];
    default:
      return [];
  }
}
