import { z } from "zod";
import { type AgentEntry, type Catalog, isOpenTo, listAgents, summaryKeysOf } from "../config/catalog/catalog.ts";
import type { Copies } from "../copies/copies.ts";
import { listPoints, RollbackPoint } from "../copies/rollback-points.ts";
import type { Caller } from "../gateway/access/caller.ts";
import { newTarget } from "../gateway/chat-commands.ts";
import type { Identity } from "../gateway/idempotent-commands.ts";
import type { CommandContext, Routes } from "../gateway/route-context.ts";
import type { FailedMessage } from "../gateway/routes/messages.ts";
import type { FollowedEntry } from "../gateway/streams/follower.ts";
import type { Followers } from "../gateway/streams/followers.ts";
import { FollowedSessionLog } from "../gateway/streams/log-stream.ts";
import type { Streams } from "../gateway/streams/open-streams.ts";
import { Track, type TrackReader } from "../gateway/streams/track.ts";
import { findAgentIdFault, MAX_CONTENT } from "../protocol/client-message.ts";
import { AppError, type ErrorCode } from "../protocol/errors.ts";
import type { LoggedData } from "../protocol/event.ts";
import { parseFrame } from "../protocol/frames.ts";
import { AgentId, CommandId, type FloorId, type MessageId, Name, type Seq, SessionId } from "../protocol/ids.ts";
import { type Message, Usage } from "../protocol/message.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { cleanText } from "../shared/text.ts";
import type { LogStore, MessageStore } from "../store/store.ts";
import { mustHaveRoom } from "./run-stream.ts";
import { WaitingReply } from "./whole-run.ts";

/** Failures of `switch_agent` that are found before its session is asked. They are outcomes too. */
const OUTCOMES: ReadonlySet<ErrorCode> = new Set(["invalid_agent_id", "invalid_agent_id_format", "session_not_found"]);

const Said = z.looseObject({
  role: z.string().max(64),
  content: z.string().max(MAX_CONTENT).overwrite(cleanText).nullish(),
});
type Said = z.infer<typeof Said>;

const Compressed = z
  .object({
    sessionId: SessionId.optional(),
    messages: z.array(Said).min(1).max(2_000).optional(),
    agentId: AgentId.optional(),
    workspaceId: Name.optional(),
    commandId: CommandId.optional(),
  })
  .refine(({ sessionId, messages }) => sessionId !== undefined || messages !== undefined, {
    message: "needs sessionId or messages",
  })
  .meta({ minProperties: 1 });
type Compressed = z.infer<typeof Compressed>;

type SummaryOutcome = Pick<LoggedData<"session_updated">, "summaryId" | "summaryContinues" | "summaryFailure">;

const isComplete = ({ summaryId, summaryContinues, summaryFailure }: SummaryOutcome): boolean =>
  summaryFailure !== undefined || (summaryId !== undefined && !summaryContinues);

type Address = { sessionId: SessionId; floorId: FloorId };

/** What these routes depend on. */
interface Context extends CommandContext {
  catalog: () => Catalog;
  followers: Followers;
  copies: Copies;
  streams: Streams;
  store: LogStore & Pick<MessageStore, "findMessage">;
  clock: Clock;
}

/** Requests of the clients of the service before this one, which name a session in the query or the body. */
export function formerClientRoutes(app: Routes, context: Context): void {
  const { histories } = context.copies;
  const { commands, followers, store, streams, visibleTo } = context;

  app.get(
    "/session/rollback-points",
    {
      schema: {
        tags: ["sessions"],
        operationId: "listRollbackPoints",
        summary: "List the messages that a session can be rolled back to",
        description:
          "Oldest first; of a long session those of the newest 1,000 turns. A client message `rollback` takes one.",
        querystring: z.object({ sessionId: SessionId }),
        response: {
          200: z.object({ success: z.literal(true), sessionId: SessionId, points: z.array(RollbackPoint) }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { sessionId } = request.query;
      // A long session takes as long to read as to copy.
      const leave = histories.enter(caller);
      try {
        return { success: true as const, sessionId, points: await listPoints(visibleTo(caller), sessionId) };
      } finally {
        leave();
      }
    },
  );

  app.post(
    "/context/compress",
    {
      schema: {
        tags: ["sessions"],
        operationId: "compressContext",
        summary: "Summarise a session, and wait for the summary",
        description:
          "As `summarize`, but answered with the summary itself. `result` is null if nothing was said since the last one. A failure is the error for which no summary was written. `messages` are summarised in a session of their own, which is archived then.",
        body: Compressed,
        response: {
          200: z.object({
            success: z.literal(true),
            result: z.object({ summary: z.string(), usage: Usage.optional() }).nullable(),
          }),
        },
      },
    },
    async (request, reply) => {
      const caller = context.callerOf(request);
      const identity = await commands.identify(caller, request, request.body);
      mustHaveRoom(streams, request.caller);
      const writer = new WaitingReply(reply);
      const { body } = request;
      if (body.messages === undefined) {
        const address = await visibleTo(caller).locate(body.sessionId!);
        return { success: true as const, result: await summarise(address, identity, request.caller, writer) };
      }
      const made = await storeMessages(body, body.messages, identity);
      if (!made) return { success: true as const, result: null };
      const part = (name: string) => ({
        ...identity,
        commandId: commands.deriveId<MessageId>(identity, name),
        mayBeRepeat: true,
      });
      try {
        return { success: true as const, result: await summarise(made, part("summarize"), request.caller, writer) };
      } finally {
        const command = { type: "session.archive" as const, sessionId: made.sessionId };
        await commands.carryOut(part("archive"), async () => ({ floorId: made.floorId, command }));
      }
    },
  );

  /** Request a summary of a session, and wait for it. @returns null if nothing was said since the last one */
  async function summarise(address: Address, identity: Identity, caller: Caller | undefined, writer: WaitingReply) {
    const { sessionId, floorId } = address;
    const command = { type: "session.summarize" as const, sessionId };
    const { seq = 0 } = await commands.carryOut(identity, async () => ({ floorId, command }));
    const waiting = await followSummary(address, seq, writer);
    streams.add({ writer, close: waiting.close }, caller);
    waiting.advance();
    await writer.ended;
    const { summaryId, summaryFailure } = waiting.outcome();
    if (summaryFailure?.errorCode) throw new AppError(summaryFailure.errorCode, summaryFailure.message);
    const message = summaryId && (await store.findMessage(sessionId, summaryId));
    if (!message) return null;
    const { content: summary, usage } = message;
    return { summary, ...(usage && { usage }) };
  }

  /**
   * Make a session with the messages of a request, which is bound to no connection.
   * @returns undefined if none of them is of the user or the assistant
   * @throws AppError `agent_not_found`; `illegal_command` if no agent writes summaries
   */
  async function storeMessages(
    { agentId: named, workspaceId }: Compressed,
    messages: readonly Said[],
    identity: Identity,
  ): Promise<Address | undefined> {
    const { caller, locale } = identity;
    const said = messages.flatMap(({ role, content }): Pick<Message, "role" | "content">[] =>
      content && (role === "user" || role === "assistant") ? [{ role, content }] : [],
    );
    if (said.length === 0) return undefined;
    const agentId = named ?? summarising(workspaceId);
    const { session } = await histories.create(identity, null, async (history) => {
      const { sessionId } = history;
      const createdAt = context.clock.now();
      for (const [index, one] of said.entries()) {
        await history.add({ id: `m${index}` as MessageId, sessionId, ...one, status: "success", createdAt });
      }
      const { floorId, creates } = newTarget(caller, sessionId, { agentId, workspaceId, locale });
      const imported = await history.finish({ by: "import" });
      return {
        floorId,
        command: { type: "session.copy", sessionId, session: creates, history: imported, activate: false },
      };
    });
    return { sessionId: session!.id, floorId: session!.floorId };
  }

  /** The default agent, if it writes summaries, or else the first one that does. Without one the floor refuses. */
  function summarising(workspaceId: string | undefined): AgentId {
    const { agents, defaultAgentId } = context.catalog();
    const writes = (agent: AgentEntry | undefined) =>
      agent?.enabled && summaryKeysOf(agent) !== undefined && isOpenTo(agent, workspaceId);
    if (writes(agents.get(defaultAgentId))) return defaultAgentId;
    const other = [...agents.values()].find(writes);
    if (!other) throw new AppError("illegal_command", "No agent writes summaries: no entry has a summary.");
    return other.id;
  }

  /** Read a session's log after a `seq` until it says what became of the summary; then end the writer. */
  async function followSummary({ sessionId, floorId }: Address, after: Seq, writer: WaitingReply) {
    const log = new FollowedSessionLog(store, sessionId);
    let outcome: SummaryOutcome = {};
    const receive = (entry: FollowedEntry): "go" | "end" => {
      const seq = log.seqOf(entry);
      if (seq === undefined || seq <= after) return "go";
      if (entry.type === "session_updated") outcome = (parseFrame(entry.frame) as { data: typeof outcome }).data;
      if (isComplete(outcome)) writer.end();
      else if (entry.ends) writer.fail(new AppError("session_archived"));
      else return "go";
      return "end";
    };
    const nothing = () => {};
    const reader: TrackReader = {
      writer: { isFull: false, write: () => "ok", send: () => "ok", destroy: () => writer.destroy(), cut: nothing },
      drafts: { receiveDelta: nothing, receiveDraft: nothing },
      sessions: () => [sessionId],
      read: (last, limit) => log.read(last ?? after, limit),
      receive,
      now: () => context.clock.now(),
    };
    const track = new Track(await followers.join(floorId), reader);
    const close = () => {
      track.close();
      followers.leave(floorId);
    };
    return { advance: () => track.advance(), close, outcome: () => outcome };
  }
}

/** Answers a failed `switch_agent` as the service before this one did: with success, and the error as its outcome. */
export const switchOutcomes =
  (catalog: () => Catalog): FailedMessage =>
  (message, thrown) => {
    if (message.type !== "switch_agent") return { error: thrown };
    // A fault in the agent's id takes precedence over a missing session.
    const fault = thrown.code === "session_not_found" ? findAgentIdFault(message.agentId) : undefined;
    const error = fault ? new AppError(fault) : thrown;
    if (!OUTCOMES.has(error.code)) return { error };
    const { code: errorCode, message: text } = error;
    return { error, outcome: { errorCode, message: text, availableAgents: listAgents(catalog()) } };
  };
