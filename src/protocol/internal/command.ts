import { z } from "zod";
import { Trace } from "../../shared/ports/tracer.ts";
import { ERROR_CODES } from "../errors.ts";
import { AgentId, FloorId, MessageId, RequestId, RunId, SessionId } from "../ids.ts";
import { Answer } from "../interaction.ts";
import { ImageRef, Message, Played } from "../message.ts";
import { Routed } from "../routed.ts";
import { Group, Origin } from "../session.ts";
import { SessionSettings } from "../session-settings.ts";
import { ReportPart, RunOutcome } from "./run.ts";

/** When a session is to ask for the floor: at an instant, after a while, or at each time of a series. */
export const WantedSchedule = z.object({
  at: z.number().optional(),
  inMs: z.number().optional(),
  every: z.string().optional(),
  timezone: z.string().optional(),
  content: z.string().optional(),
});
export type WantedSchedule = z.infer<typeof WantedSchedule>;

/** A session that a command creates. */
export const WantedSession = z.object({
  sessionId: SessionId,
  /** Default: the catalogue's default agent. */
  agentId: AgentId.optional(),
  userId: z.string().optional(),
  zone: z.string().optional(),
  ownerId: z.string().optional(),
  workspaceId: z.string().optional(),
  ...SessionSettings.shape,
  /** The language in which decisions about it are said. */
  locale: z.string().optional(),
  /** Archive the session when its last turn has ended, however it ended. */
  endsWithTurn: z.literal(true).optional(),
  /** Of a request for all zones. */
  group: Group.optional(),
});
export type WantedSession = z.infer<typeof WantedSession>;

/** The messages that a new session begins with: they are staged in the store, under an id that no client can name. */
export const History = z.object({
  stagedAs: z.templateLiteral(["~", z.string()]).optional().meta({ description: "absent if there are no messages" }),
  messageCount: z.number().int().nonnegative(),
  origin: Origin,
  /** The newest summary among the messages, and its first line. */
  summary: z.object({ messageId: MessageId, headline: z.string() }).optional(),
});
export type History = z.infer<typeof History>;

/** A user's message that starts a run. */
export const TurnInput = z.object({
  messageId: MessageId,
  runId: RunId,
  content: z.string(),
  images: z.array(ImageRef).optional(),
  /** Further parts of the message, such as the named groups of the pattern by which it was routed. */
  parts: Message.shape.parts,
  /** How much of the reply before was spoken, in UTF-16 units. */
  playedUpTo: z.int().nonnegative().optional(),
});
export type TurnInput = z.infer<typeof TurnInput>;

const about = { sessionId: SessionId };
/** Of a sentence that named no agent: which agent hears it, and why. It is logged, and part of the answer. */
const routed = { routed: Routed.optional() };
const attempt = { sessionId: SessionId, runId: RunId, attempt: z.number().int().nonnegative() };

/**
 * A command to a floor: the only input of its actors. `session.*` and `floor.*` come from clients, `run.*` from
 * workers, `alarm` from the floor's alarm.
 */
export const Command = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("session.create"),
    ...about,
    session: WantedSession,
    activate: z.boolean(),
    schedule: WantedSchedule.optional(),
  }),
  z.object({
    type: z.literal("session.chat"),
    ...about,
    turn: TurnInput,
    session: WantedSession.optional(),
    ...routed,
  }),
  /** Creates a session with a history, and with its next turn if it has one. */
  z.object({
    type: z.literal("session.copy"),
    ...about,
    session: WantedSession,
    history: History,
    activate: z.boolean(),
    turn: TurnInput.optional(),
    /** A session of this floor that is archived. If it held the floor, the new session gets it. */
    replaces: SessionId.optional(),
  }),
  /**
   * Creates a session in which a session of another floor goes on. It requests this floor; unless it is refused, the
   * other one is archived in the same commit (rule C34).
   */
  z.object({
    type: z.literal("session.move"),
    ...about,
    session: WantedSession,
    history: History,
    /** Its session, and the `seq` of its newest event when its messages were copied. */
    from: z.object({ sessionId: SessionId, floorId: FloorId, seq: z.int().nonnegative() }),
    /** Its turns that have not ended, in their order. They begin here. */
    turns: z.array(TurnInput),
  }),
  /** Archives a session in favour of another one. */
  z.object({
    type: z.literal("session.replace"),
    ...about,
    by: z.object({ sessionId: SessionId, agentId: AgentId }),
    /** The floor of `by`, if the session was moved there. */
    movedTo: FloorId.optional(),
  }),
  z.object({ type: z.literal("session.activate"), ...about }),
  z.object({ type: z.literal("session.resume"), ...about }),
  z.object({ type: z.literal("session.pause"), ...about }),
  z.object({ type: z.literal("session.archive"), ...about }),
  z.object({ type: z.literal("session.stop"), ...about }),
  /** `runId`: end only this run, or withdraw its turn if it has not begun. Absent: end the current run. */
  z.object({ type: z.literal("session.abort"), ...about, runId: RunId.optional() }),
  z.object({ type: z.literal("session.delete"), ...about }),
  /** A mode is for the turns to come. */
  z.object({ type: z.literal("session.update"), ...about, settings: SessionSettings }),
  /** A heartbeat of the session's participant. */
  z.object({ type: z.literal("session.heartbeat"), ...about }),
  z.object({ type: z.literal("session.played"), ...about, ...Played.shape }),
  z.object({ type: z.literal("session.switch_agent"), ...about, agentId: z.string() }),
  /** Requests a summary, if none is being written. */
  z.object({ type: z.literal("session.summarize"), ...about }),
  /** Gives a session that never had the floor a time at which it asks, or another one. */
  z.object({ type: z.literal("session.schedule"), ...about, schedule: WantedSchedule }),
  z.object({ type: z.literal("session.withdraw"), ...about, messageId: MessageId }),
  z.object({ type: z.literal("session.answer"), ...about, requestId: RequestId, answer: Answer }),
  z.object({ type: z.literal("floor.stop") }),
  z.object({ type: z.literal("floor.stop_all") }),
  /** A sentence that no agent hears. */
  z.object({ type: z.literal("floor.ignore"), routed: Routed }),
  z.object({ type: z.literal("floor.flags"), flags: z.record(z.string(), z.boolean()) }),
  /** Changes only these flags. */
  z.object({ type: z.literal("floor.patch_flags"), flags: z.record(z.string(), z.boolean()) }),
  /** `sessionId`: of a message to this session. Default: a new session asks, of this owner. */
  z.object({
    type: z.literal("floor.what_if"),
    agentId: z.string(),
    sessionId: SessionId.optional(),
    ownerId: z.string().optional(),
    locale: z.string().optional(),
    /** Whether the new session asks with a message. */
    isTurn: z.boolean().optional(),
    /** What the router agents of its sentence used, which counts before its turn. */
    asked: Routed.shape.asked,
  }),
  z.object({
    type: z.literal("run.claim"),
    sessionId: SessionId,
    runId: RunId,
    claimId: z.string(),
    /** The name of the worker's node, for readers. Absent: an earlier release. */
    worker: z.string().max(256).optional(),
    /** Whether the worker asked the run's topic for a driver and received no reply (rule C10). */
    hasNoDriver: z.boolean(),
  }),
  z.object({
    type: z.literal("run.report"),
    ...attempt,
    n: z.number().int().positive(),
    parts: z.array(ReportPart),
    /** Questions of earlier reports whose answers the agent no longer needs. */
    withdrawn: z.array(RequestId).optional(),
    /** The agent tries again after this failure and so many ms, for readers. */
    retry: z.object({ after: z.enum(ERROR_CODES), delayMs: z.number() }).optional(),
    outcome: RunOutcome.optional(),
  }),
  z.object({ type: z.literal("run.still"), ...attempt }),
  /** Carries out what is due, as every other command does first. */
  z.object({ type: z.literal("alarm") }),
]);
export type Command = z.infer<typeof Command>;
export type CommandOf<T extends Command["type"]> = Extract<Command, { type: T }>;

/** The command types of this release. Another release may know others (rule C24). */
export const COMMAND_TYPES: ReadonlySet<string> = new Set(Command.options.map(({ shape }) => shape.type.value));

/** A command with the data for its delivery to the floor. */
export const Envelope = z.object({
  floorId: FloorId,
  /** The caller; receipts are stored per caller. Absent for the system's own commands, which need no receipt. */
  caller: z.string().optional(),
  /** The owner whose sessions the command may see and change (rule C26). Absent: all sessions. */
  actsFor: z.string().optional(),
  commandId: z.string(),
  /** A hash of the request's body, with which a repeat is compared. */
  bodyHash: z.string(),
  /** No host starts the command after this instant (ms since 1970, rule C4). */
  timeoutAt: z.number(),
  /**
   * The trace the command belongs to; absent when it is not traced. A malformed trace is ignored: the command must not
   * fail.
   */
  trace: Trace.optional().catch(undefined),
  /** The command acts only if its session's log ends here (rule C33). */
  ifSeq: z.int().optional(),
  command: Command,
});
export type Envelope = z.infer<typeof Envelope>;

/** The session that a command creates if it does not exist. */
export function sessionCreatedBy(command: Command): SessionId | undefined {
  const { type } = command;
  if (type === "session.create" || type === "session.copy" || type === "session.move") return command.sessionId;
  return command.type === "session.chat" ? command.session?.sessionId : undefined;
}
