import { z } from "zod";
import type { Histories } from "../../copies/histories.ts";
import { listPoints, RollbackPoint } from "../../copies/rollback-points.ts";
import type { CommandContext, Routes } from "../../gateway/route-context.ts";
import { FollowedSessionLog } from "../../gateway/streams/followed-log.ts";
import type { FollowedEntry } from "../../gateway/streams/follower.ts";
import type { Followers } from "../../gateway/streams/followers.ts";
import type { Streams } from "../../gateway/streams/open-streams.ts";
import { Track, type TrackReader } from "../../gateway/streams/track.ts";
import { AppError } from "../../protocol/errors.ts";
import type { LoggedData } from "../../protocol/event.ts";
import { parseFrame } from "../../protocol/frames.ts";
import { CommandId, type FloorId, type Seq, SessionId } from "../../protocol/ids.ts";
import { Usage } from "../../protocol/message.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { LogStore, MessageStore } from "../../store/store.ts";
import { mustHaveRoom } from "../run-stream.ts";
import { WaitingReply } from "../whole-run.ts";

/** What these routes depend on. */
interface Context extends CommandContext {
  followers: Followers;
  histories: Histories;
  streams: Streams;
  store: LogStore & Pick<MessageStore, "findMessage">;
  clock: Clock;
}

/** Requests of the clients of the service before this one, which name a session in the query or the body. */
export function formerClientRoutes(app: Routes, context: Context): void {
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
      const caller = await context.authenticate(request);
      const { sessionId } = request.query;
      // A long session takes as long to read as to copy.
      const leave = context.histories.enter(caller);
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
          "As `summarize`, but answered with the summary itself. `result` is null if nothing was said since the last one. A failure is the error for which no summary was written.",
        body: z.object({ sessionId: SessionId, commandId: CommandId.optional() }),
        response: {
          200: z.object({
            success: z.literal(true),
            result: z.object({ summary: z.string(), usage: Usage.optional() }).nullable(),
          }),
        },
      },
    },
    async (request, reply) => {
      const caller = await context.authenticate(request);
      const identity = await commands.identify(caller, request, request.body);
      const { sessionId, floorId } = await visibleTo(caller).locate(request.body.sessionId);
      mustHaveRoom(streams, request.caller);
      const command = { type: "session.summarize" as const, sessionId };
      const { seq = 0 } = await commands.carryOut(identity, async () => ({ floorId, command }));
      const writer = new WaitingReply(reply);
      const waiting = await followSummary({ sessionId, floorId }, seq, writer);
      streams.add({ writer, close: waiting.close }, request.caller);
      waiting.advance();
      await writer.ended;
      const { summaryId, summaryFailure } = waiting.outcome();
      if (summaryFailure?.errorCode) throw new AppError(summaryFailure.errorCode, summaryFailure.message);
      const message = summaryId && (await store.findMessage(sessionId, summaryId));
      if (!message) return { success: true as const, result: null };
      const { content: summary, usage } = message;
      return { success: true as const, result: { summary, ...(usage && { usage }) } };
    },
  );

  /** Read a session's log after a `seq` until it says what became of the summary; then end the writer. */
  async function followSummary(
    { sessionId, floorId }: { sessionId: SessionId; floorId: FloorId },
    after: Seq,
    writer: WaitingReply,
  ) {
    const log = new FollowedSessionLog(store, sessionId);
    let outcome: Pick<LoggedData<"session_updated">, "summaryId" | "summaryFailure"> = {};
    const receive = (entry: FollowedEntry): "go" | "end" => {
      const seq = log.seqOf(entry);
      if (seq === undefined || seq <= after) return "go";
      if (entry.type === "session_updated") outcome = (parseFrame(entry.frame) as { data: typeof outcome }).data;
      if (outcome.summaryId ?? outcome.summaryFailure) writer.end();
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
