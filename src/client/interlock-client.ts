/** The entry point of `interlock/client`: commands, event streams, and live views that streams keep current. */

export type { UsageRow } from "../protocol/budget.ts";
export type { InterlockDataParts } from "../protocol/chat-data.ts";
export type { Decision } from "../protocol/decision.ts";
export type { FloorSummary, Reservation } from "../protocol/floor.ts";
export type { HeardReport, NodeReport } from "../protocol/internal/node-report.ts";
export type { ListedRun, ListedRunState } from "../protocol/listed-run.ts";
export type { Matrix, MatrixCell, MatrixDifference } from "../protocol/matrix.ts";
export type { Message } from "../protocol/message.ts";
export { seqOf } from "../protocol/position.ts";
export type { AgentTally, FloorReplay } from "../protocol/replay.ts";
export type { AgentInfo, Session } from "../protocol/session.ts";
export type { ZoneAnswer } from "../protocol/zone-answer.ts";
export type {
  AgentsAnswer,
  AgentView,
  CatalogueDifference,
  CatalogueFault,
  Definition,
  DefinitionAnswer,
  DefinitionPage,
  DefinitionSettings,
  FloorLogPage,
  FloorPage,
  FloorView,
  Health,
  LoadedSession,
  LogPage,
  MatrixAnswer,
  MessageAnswer,
  MessagePage,
  NodeList,
  QueuePage,
  Readiness,
  ReplayAnswer,
  RunPage,
  SessionAnswer,
  SessionPage,
  UsagePage,
  WebhookAnswer,
  WebhookView,
} from "./answers.ts";
export {
  type Client,
  type ConnectionOptions,
  createClient,
  type DefinitionChange,
  type DefinitionInput,
  type DefinitionQuery,
  type EditInput,
  type FloorLogQuery,
  type FloorQuery,
  type ForkInput,
  type ImportInput,
  type MatrixQuery,
  type NewSession,
  type OutgoingMessage,
  type PageRange,
  type ReplayQuery,
  type RunQuery,
  type SessionQuery,
  type StreamOptions,
  type UsageQuery,
} from "./client.ts";
export { ClientError, type ClientErrorCode, type ClientErrorFacts, type WhatIfAnswer } from "./client-error.ts";
export type { PendingInteraction, SessionMessage, ToolUse } from "./conversation-reader.ts";
export type { EventStream, StreamState, StreamStatus } from "./event-stream.ts";
export { keepLease, type Lease, type LeaseOptions } from "./live/lease.ts";
export type { LiveState, LiveStatus } from "./live/live.ts";
export { type ConnectionView, LiveConnection } from "./live/live-connection.ts";
export { type FloorLiveView, LiveFloor } from "./live/live-floor.ts";
export { type FloorsLiveView, LiveFloors } from "./live/live-floors.ts";
export { LiveSession, type LiveSessionOptions, type SessionLiveView } from "./live/live-session.ts";
export { LiveViews } from "./live/live-views.ts";
export { type MessageText, MessageTexts } from "./message-texts.ts";
export type { ClientOptions, CommandOptions, HeaderSource, ReadOptions, WriteOptions } from "./requester.ts";
export type { ServerEvent, ServerEventOf } from "./server-event.ts";
