import type { FastifyReply } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { ReplayThread } from "../../policy/replay/replay-thread.ts";
import { AppError } from "../../protocol/errors.ts";
import { positionedJson } from "../../protocol/frames.ts";
import type { FloorId } from "../../protocol/ids.ts";
import { logPosition } from "../../protocol/position.ts";
import { FloorReplay } from "../../protocol/replay.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { StoreEpoch } from "../../store/store.ts";
import type { VisibleSessions } from "../access/visible-sessions.ts";
import { sendLargeJson } from "../http/compression.ts";
import { endWithClient } from "../http/sockets/hang-up.ts";
import type { Definitions, Routes, SightContext } from "../route-context.ts";
import { LoggedEventSchema } from "./event-schemas.ts";
import { FloorParams } from "./floors.ts";

const DAY_MS = 86_400_000;
/** Events that are read from the store at a time. */
const READ = 200;

const Query = z.object({
  lastMs: z.coerce
    .number()
    .int()
    .min(1)
    .max(31 * DAY_MS)
    .default(DAY_MS)
    .meta({ description: "how old the oldest event may be, in ms" }),
  refusedLastMs: z.coerce
    .number()
    .int()
    .min(0)
    .max(DAY_MS)
    .default(30_000)
    .meta({ description: "how long a session is heard that was refused and is not refused now, in ms" }),
});

const events = z.array(LoggedEventSchema);

/** Plays what happened on a floor with another catalogue. Writes nothing. */
export function replayRoutes(
  app: Routes,
  context: SightContext & { definitions: Definitions; store: StoreEpoch; clock: Clock },
): void {
  const { definitions, store, clock } = context;
  let isBusy = false;

  /** The node's only replay. It ends when it is done, when its client hangs up, or after a minute. */
  async function during<T>(reply: FastifyReply, thread: ReplayThread, work: () => Promise<T>): Promise<T> {
    const end = () => void thread.close();
    const timer = clock.after(BOUNDS.replayTimeMs, end);
    reply.raw.once("close", end);
    endWithClient(reply.raw);
    try {
      return await work();
    } finally {
      timer.cancel();
      reply.raw.off("close", end);
      await thread.close();
    }
  }

  app.post(
    "/floor/:id/replay",
    {
      config: { acceptsYaml: true },
      schema: {
        tags: ["floors"],
        operationId: "replayFloor",
        summary: "Replay a floor with another catalogue",
        description:
          "The body is the text of a catalogue. What was done to the floor, at its times, is played with it: the answer lists what becomes otherwise, and has both logs, without what was said. A catalogue with faults is `bad_request` with each fault's line and column. Nothing is written. A node plays one log at a time.",
        params: FloorParams,
        querystring: Query,
        response: {
          200: FloorReplay.extend({
            success: z.literal(true),
            before: events.meta({ description: "what shows the floor over time in the log, the oldest first" }),
            after: events.meta({ description: "the same with the other catalogue" }),
          }),
        },
      },
    },
    async (request, reply) => {
      const sessions = context.visibleTo(context.callerOf(request));
      const floorId = await sessions.floor(request.params.id);
      const { body: yaml, query } = request;
      if (!(yaml instanceof Uint8Array)) {
        throw new AppError("bad_request", "The body must be a catalogue, as application/yaml.");
      }
      if (isBusy) throw new AppError("busy", "The node is playing another log. Repeat the request.");
      isBusy = true;
      try {
        const { refusedLastMs, lastMs } = query;
        const defined = definitions.all().map(({ definition }) => definition);
        const thread = new ReplayThread({ floorId, yaml, definitions: defined, refusedLastMs }, BOUNDS.replayMemory);
        const outcome = await during(reply, thread, () => {
          const span = { floorId, epoch: store.epoch, from: clock.now() - lastMs };
          const played = readSpan(sessions, span, thread).then((hasMore) => thread.play(hasMore));
          // Its thread may end while the store is being read.
          return Promise.race([played, thread.outcome]);
        });
        if (outcome.kind === "played") return await sendLargeJson(request, reply, outcome.json);
        if (outcome.kind === "faulty") {
          throw new AppError("bad_request", "The catalogue has faults.", { facts: { faults: outcome.faults } });
        }
        throw new AppError("too_large", "The replay takes too long, or too much memory. Choose a shorter time.");
      } finally {
        isBusy = false;
      }
    },
  );
}

interface Span {
  floorId: FloorId;
  epoch: string;
  /** Ms since 1970. */
  from: number;
}

/** Give the thread the newest events of a span. @returns whether older events of it were left out */
async function readSpan(sessions: VisibleSessions, span: Span, thread: ReplayThread): Promise<boolean> {
  let before: number | undefined;
  let left = BOUNDS.replayedEvents;
  while (left > 0 && !thread.isEnding) {
    const { entries, lowWater } = await sessions.floorLogBack(span.floorId, before, Math.min(left, READ));
    const inTime = entries.filter(({ at }) => at >= span.from);
    thread.add(inTime.map((entry) => positionedJson(logPosition(span.epoch, entry.floorSeq), entry)));
    left -= inTime.length;
    before = entries.at(-1)?.floorSeq;
    if (before === undefined || before <= lowWater + 1 || inTime.length < entries.length) return false;
  }
  return true;
}
