import type { Decision } from "../protocol/decision.ts";
import type { LogLine, Message } from "../protocol/message.ts";
import type { SwitchOutcome } from "../protocol/reply.ts";
import type { AgentInfo, Session } from "../protocol/session.ts";

/** `position`, here and below: where the log stood with this answer, good to open a stream with. */
export interface SessionAnswer {
  session: Session;
  /** What the arbiter said, where it was asked. */
  decision?: Decision;
  position?: string;
}

export interface LoadedSession {
  /** With its newest messages; `hasMore` says that there are older ones. */
  session: Session & { messages: Message[]; hasMore: boolean };
  position: string;
}

export interface SessionPage {
  page: number;
  pageSize: number;
  total: number;
  hasMore: boolean;
  /** Newest activity first. */
  sessions: Session[];
}

export interface MessagePage {
  /** Oldest first. */
  messages: Message[];
  hasMore: boolean;
  position: string;
}

export interface LogPage {
  logs: LogLine[];
  hasMore: boolean;
}

export interface FloorView {
  floorId: string;
  holder: Session | null;
  paused: Session[];
  queued: Session[];
  flags: Record<string, boolean>;
  /** The newest 50. */
  decisions: Decision[];
  position: string;
}

export interface AgentView extends AgentInfo {
  priority: number;
  interruptible: boolean;
  capabilities: string[];
  /** Whether it could answer now. */
  available: boolean;
}

export interface AgentsAnswer {
  agents: AgentView[];
  defaultAgentId: string;
}

export interface MessageAnswer {
  sessionId?: string;
  messageId?: string;
  runId?: string;
  decision?: Decision;
  /** What a `switch_agent` came to; with an `errorCode` the agent stayed. */
  outcome?: SwitchOutcome;
  /** What a turn took the place of. */
  interrupted?: { runId: string; messageId: string };
  position?: string;
}

export interface Health {
  status: "ok";
  connections: number;
  version: string;
}

export interface Readiness {
  status: "ok" | "not_ready";
  missing: string[];
  catalog: {
    hash: string;
    loadedAt: number;
    faults?: { line: number; column: number; path: string; message: string }[];
  };
}
