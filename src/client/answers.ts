import type { UsageRow } from "../protocol/budget.ts";
import type { Decision } from "../protocol/decision.ts";
import type { FloorSummary, Reservation } from "../protocol/floor.ts";
import type { HeardReport } from "../protocol/internal/node-report.ts";
import type { SwitchOutcome } from "../protocol/internal/reply.ts";
import type { WebhookReport, WebhookTest } from "../protocol/internal/webhook-report.ts";
import type { ListedRun } from "../protocol/listed-run.ts";
import type { Matrix, MatrixDifference } from "../protocol/matrix.ts";
import type { LogLine, Message } from "../protocol/message.ts";
import type { FloorReplay } from "../protocol/replay.ts";
import type { Routed } from "../protocol/routed.ts";
import type { AgentInfo, Session, SessionState } from "../protocol/session.ts";
import type { ZoneAnswer } from "../protocol/zone-answer.ts";
import type { LoggedServerEvent } from "./server-event.ts";

/** `position`, here and below: the log's position at this answer. A stream can be opened with it. */
export interface SessionAnswer {
  session: Session;
  /** The arbiter's decision, if the command requested the floor. */
  decision?: Decision;
  position?: string;
  /** With the zone `*`: what each of the user's open floors decided. `session` is the first that exists. */
  zones?: ZoneAnswer[];
}

export interface LoadedSession {
  /** The session with its newest messages. `hasMore`: there are older ones. */
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

/** The fields of an agent that is defined in the database. Omitted fields are inherited from its base. */
export interface DefinitionSettings {
  /** The agent of the catalogue's file whose model it uses, and at most whose tools. */
  basedOn: string;
  label?: string;
  description?: string;
  instructions?: string;
  tools?: string[];
  maxSteps?: number;
  subAgents?: string[];
  maxDepth?: number;
  priority?: number;
  interruptible?: boolean;
  enabled?: boolean;
}

export interface Definition extends DefinitionSettings {
  /** The agent's id. */
  id: string;
  name: string;
  workspaceId: string;
  /** Why it is not an agent now. */
  fault?: string;
}

export interface DefinitionAnswer {
  definition: Definition;
}

export interface DefinitionPage {
  /** By id. */
  definitions: Definition[];
  hasMore: boolean;
}

export interface QueuePage {
  /** The next turn first. */
  messages: Message[];
  hasMore: boolean;
}

export interface LogPage {
  logs: LogLine[];
  hasMore: boolean;
}

export interface FloorView {
  floorId: string;
  holder: Session | null;
  /**
   * The sessions audible alongside the holder, highest priority first. Absent where the catalogue does not allow this.
   */
  ducked?: Session[];
  /** The restrictions that the floor's flags switch on. Absent where the catalogue has none. */
  restrictedBy?: string[];
  paused: Session[];
  queued: Session[];
  /** For whom the idle floor is reserved. */
  reserved?: Reservation;
  flags: Record<string, boolean>;
  /** The newest 50. */
  decisions: Decision[];
  position: string;
}

export interface FloorPage {
  /** In the order of their ids. */
  floors: FloorSummary[];
  hasMore: boolean;
}

export interface UsagePage {
  /** The newest day first. */
  usage: UsageRow[];
  /** `after` of the next page; absent on the last one. */
  next?: string;
}

export interface FloorLogPage {
  /** Newest first, each with its position in the floor's log. */
  events: (LoggedServerEvent & { position: string })[];
  hasMore: boolean;
  position: string;
}

export interface AgentView extends AgentInfo {
  priority: number;
  interruptible: boolean;
  capabilities: string[];
  /** Choices among its tools; its sessions begin in the first. */
  modes?: string[];
  /** Whether the agent could answer now. */
  available: boolean;
  /** The workspace that it is defined for; absent for an agent of the catalogue's file. */
  workspaceId?: string;
  /** Present for an external agent, whose sessions accept no turns. */
  external?: boolean;
  /** The longest interval between heartbeats of its sessions, in ms. */
  leaseMs?: number;
  /** With nothing running, its session gives the floor up as soon as another waits for it. */
  idleYields?: boolean;
}

export interface AgentsAnswer {
  agents: AgentView[];
  defaultAgentId: string;
  /** A sentence that names neither an agent nor a session goes to the agent that the catalogue's `routing` names. */
  routing?: boolean;
}

export interface MessageAnswer {
  sessionId?: string;
  messageId?: string;
  runId?: string;
  decision?: Decision;
  /** Which agent hears a sentence that named none, and why. With `ignored` nobody does, and there is no session. */
  routed?: Routed;
  /** The outcome of a `switch_agent`. With an `errorCode` the agent stayed the same. */
  outcome?: SwitchOutcome;
  /** What the new turn replaced. */
  interrupted?: { runId: string; messageId: string };
  /** What the request may not have meant, or what its turn waits for. */
  notice?: string;
  /** In reply to a heartbeat, as the following three: the session's own. */
  state?: SessionState;
  level?: number;
  leaseMs?: number;
  leaseUntil?: number;
  /** In reply to a heartbeat: its lease ran out, so only a request brings the session back. `notice` says so. */
  lapsed?: boolean;
  /** In reply to `played`: the position that counts. */
  playedUpTo?: number;
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
    faults?: CatalogueFault[];
  };
}

/** A fault in a catalogue. `line` and `column` count from 1; `message` continues a sentence that begins with `path`. */
export interface CatalogueFault {
  line: number;
  column: number;
  path: string;
  message: string;
}

/** `hash`: of the catalogue's file in use. */
export interface MatrixAnswer extends Matrix {
  hash: string;
}

/** `changed`: agents whose entries differ. `parts`: other top-level keys that differ. */
export interface CatalogueDifference extends MatrixDifference {
  hash: string;
  newHash: string;
  changed: string[];
  parts: string[];
}

/** A floor's log, played with another catalogue. */
export interface ReplayAnswer extends FloorReplay {
  /** What shows the floor over time, in the log and with the other catalogue, the oldest first. */
  before: FloorLogPage["events"];
  after: FloorLogPage["events"];
}

export interface RunPage {
  /** Unfinished runs, of the session that has had some for longest first; failed ones, the newest first. */
  runs: ListedRun[];
  /** `after` of the next page. Absent: this is the last one. A page may have fewer runs than its limit. */
  next?: string;
}

/** A webhook of the node's file, and what waits for its receiver. */
export type WebhookView = WebhookReport;
/** How a webhook's receiver answered a test. */
export type WebhookAnswer = WebhookTest;

export interface NodeList {
  /** The node that answered first, then the others by their ids. */
  nodes: HeardReport[];
  /** Roles that no answering node has. */
  absentRoles: HeardReport["roles"];
}
