import { z } from "zod";
import { AgentId, EffectId, FloorId, MessageId, RequestId, RunId, SessionId } from "./ids.ts";
import { Answer } from "./interaction.ts";
import { ImageRef } from "./message.ts";
import { ReportPart, RunOutcome } from "./run.ts";
import { Trace } from "./tracer.ts";

/** A session that a command brings with it. */
export const NewSession = z.object({
  sessionId: SessionId,
  /** Left out: the catalogue's default agent. */
  agentId: AgentId.optional(),
  userId: z.string().optional(),
  zone: z.string().optional(),
  ownerId: z.string().optional(),
  workspaceId: z.string().optional(),
  title: z.string().optional(),
});
export type NewSession = z.infer<typeof NewSession>;

/** A user's message that starts a run. */
export const TurnInput = z.object({
  messageId: MessageId,
  runId: RunId,
  content: z.string(),
  images: z.array(ImageRef).optional(),
});
export type TurnInput = z.infer<typeof TurnInput>;

const about = { sessionId: SessionId };
const attempt = { sessionId: SessionId, runId: RunId, attempt: z.number().int().nonnegative() };

/**
 * All that may be asked of a floor; nothing else enters its actors. `session.*` and `floor.*` come from clients,
 * `run.*` from workers, `timer` from the effects a floor asked for itself.
 */
export const Command = z.discriminatedUnion("type", [
  z.object({ type: z.literal("session.create"), ...about, session: NewSession, activate: z.boolean() }),
  z.object({ type: z.literal("session.chat"), ...about, turn: TurnInput, session: NewSession.optional() }),
  z.object({ type: z.literal("session.activate"), ...about }),
  z.object({ type: z.literal("session.resume"), ...about }),
  z.object({ type: z.literal("session.pause"), ...about }),
  z.object({ type: z.literal("session.archive"), ...about }),
  z.object({ type: z.literal("session.stop"), ...about }),
  z.object({ type: z.literal("session.abort"), ...about }),
  z.object({ type: z.literal("session.delete"), ...about }),
  z.object({ type: z.literal("session.rename"), ...about, title: z.string() }),
  z.object({ type: z.literal("session.switch_agent"), ...about, agentId: z.string() }),
  z.object({ type: z.literal("session.withdraw"), ...about, messageId: MessageId }),
  z.object({ type: z.literal("session.answer"), ...about, requestId: RequestId, answer: Answer }),
  z.object({ type: z.literal("floor.stop") }),
  z.object({ type: z.literal("floor.stop_all") }),
  z.object({ type: z.literal("floor.flags"), flags: z.record(z.string(), z.boolean()) }),
  z.object({ type: z.literal("floor.what_if"), agentId: z.string() }),
  z.object({
    type: z.literal("run.claim"),
    sessionId: SessionId,
    runId: RunId,
    claimId: z.string(),
    /** Whether the run's topic was asked for a driver, and nobody answered (rule C10). */
    asked: z.boolean(),
  }),
  z.object({
    type: z.literal("run.report"),
    ...attempt,
    n: z.number().int().positive(),
    parts: z.array(ReportPart),
    outcome: RunOutcome.optional(),
  }),
  z.object({ type: z.literal("run.still"), ...attempt }),
  z.object({ type: z.literal("timer"), timerId: EffectId, sessionId: SessionId.optional() }),
]);
export type Command = z.infer<typeof Command>;
export type CommandOf<T extends Command["type"]> = Extract<Command, { type: T }>;

/** What this release knows; of anything else another may know (rule C24). */
export const COMMAND_TYPES: ReadonlySet<string> = new Set(Command.options.map(({ shape }) => shape.type.value));

/** A command on its way to its floor. */
export const Envelope = z.object({
  floorId: FloorId,
  /** Who asks; receipts are kept per caller. Absent for what the system asks of itself: that needs no receipt. */
  caller: z.string().optional(),
  commandId: z.string(),
  /** What a repeat is compared with. */
  bodyHash: z.string(),
  /** No host starts it after this instant (ms since 1970, rule C4). */
  deadline: z.number(),
  /** What it is part of, where that is traced. One that makes no sense is none: it must not cost the command. */
  trace: Trace.optional().catch(undefined),
  command: Command,
});
export type Envelope = z.infer<typeof Envelope>;
