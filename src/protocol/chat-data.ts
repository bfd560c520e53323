import type { Decision } from "./decision.ts";
import type { LoggedData } from "./event.ts";
import type { ToolCall } from "./interaction.ts";
import type { AgentRef, Message } from "./message.ts";

/**
 * The data of the parts `data-…` that `POST /api/chat` sends, by name. Use it as the type of a chat:
 * `useChat<UIMessage<unknown, InterlockDataParts>>`.
 */
export type InterlockDataParts = {
  /** A decision about the floor. */
  arbitration: Decision;
  /** The newest change of the session's state. */
  session: LoggedData<"session_transition">;
  /** A complete message of a sub-agent. */
  message: Pick<Message, "id" | "content" | "status"> & { agent: AgentRef };
  /** A tool call of a sub-agent, with its result once there is one. */
  "tool-call": ToolCall & { agent: AgentRef; status?: "success" | "error"; content?: string };
  /** Data that an agent sends to the page. */
  agent: LoggedData<"data">;
  /** Why the reply failed. */
  error: Pick<LoggedData<"error">, "errorCode" | "message" | "retryAfterMs">;
};
