import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { Bus } from "../../bus/bus.ts";
import type { Catalog } from "../../config/catalog/catalog.ts";
import type { CatalogStatus } from "../../config/catalog/watched-catalog.ts";
import { type Identity, isRefusal } from "../../gateway/idempotent-commands.ts";
import { AppError } from "../../protocol/errors.ts";
import { headersOf, type LiveRuns, type LiveRunsContext, type RunAddress, type WantedTurn } from "../live-runs.ts";
import type { RepeatedRequests } from "../repeated-requests.ts";
import { mustHaveRoom, type RunStreamContext, type RunTranslator, streamRun } from "../run-stream.ts";
import type { ReadOutcome, RunSummary } from "../run-summary.ts";
import { WholeRun } from "../whole-run.ts";
import { errorOf, OpenAiProblem } from "./openai-problem.ts";
import type { OpenAiTurn } from "./openai-request.ts";

/** The options of a route that answers a message. @param format the name of OpenAI's format @param list its messages */
export const openAiRoute = <B extends z.ZodType, A extends z.ZodType>(
  operationId: string,
  format: string,
  { body, answer, list }: { body: B; answer: A; list: string },
) => ({
  schema: {
    tags: ["doors"],
    operationId,
    summary: `Answer a message in the format of OpenAI's ${format}`,
    description: "The model is an agent. docs/use/doors.md lists the differences from OpenAI.",
    body,
    response: { 200: answer, "4xx": OpenAiProblem, default: OpenAiProblem },
  },
  config: { conversation: { list, readsEarlier: true } },
});

/** The turn that a request asks for. */
interface OpenAiRequest {
  readonly identity: Identity;
  /** The session and the agent of a new turn. */
  readonly target: Omit<WantedTurn, "chat" | "title">;
  /** Called once there is room for the run. @throws AppError for a malformed message */
  readTurn(): OpenAiTurn;
}

/** How a run is converted to the answer of a request. */
interface OpenAiAnswer {
  readonly isStream: boolean;
  translator(address: RunAddress): RunTranslator;
  whole(address: RunAddress, summary: RunSummary): object;
}

/** What the routes of this door depend on. */
export interface OpenAiContext extends LiveRunsContext, RunStreamContext {
  catalog: () => Catalog;
  catalogStatus: () => CatalogStatus;
  bus: Bus;
}

/** What the routes of this door share. */
export interface OpenAiDoor {
  context: OpenAiContext;
  runs: LiveRuns;
  /** Requests whose clients retry automatically: a retry joins the first request. */
  repeats: RepeatedRequests;
}

interface OpenAiRunOptions extends OpenAiDoor {
  request: FastifyRequest;
  reply: FastifyReply;
}

/** The error for a run that another client aborted. */
export const ABORTED = "The reply was aborted.";

/** What an answer says in `metadata`, whose values are texts. */
export const metadataOf = ({ sessionId, runId, playedUpTo }: RunAddress) => ({
  session: sessionId,
  run: runId,
  ...(playedUpTo !== undefined && { played: String(playedUpTo) }),
});

/**
 * Answer with a run. If the client disconnects before the end, the run is aborted, because such a client has no other
 * way to abort it.
 */
export async function answerWithRun(
  { context, runs, repeats, request, reply }: OpenAiRunOptions,
  { identity: wanted, target, readTurn }: OpenAiRequest,
  answer: OpenAiAnswer,
): Promise<FastifyReply> {
  const { streams, log } = context;
  mustHaveRoom(streams, request.caller);
  const turn = readTurn();
  const isRetry = Number(request.headers["x-stainless-retry-count"] ?? 0) > 0;
  const { identity, end } = repeats.admit(wanted, { session: target.sessionId, isRetry });
  const { caller } = identity;
  let hasRun = false;
  try {
    return "answers" in turn
      ? await runs.answer(identity, turn.sessionId, turn.answers, show)
      : await runs.begin(identity, { ...target, ...turn }, show);
  } catch (error) {
    // A refusal had no effect, so a further request may be decided again.
    if (!hasRun) end(isRefusal(error) ? "whole" : "unknown");
    throw error;
  }

  async function show(address: RunAddress): Promise<FastifyReply> {
    hasRun = true;
    void reply.headers(headersOf(address));
    if (!answer.isStream) return reply.send(await readWhole(address));
    const onClose = (outcome: ReadOutcome | "left" | "cut") => {
      end(outcome === "left" ? "left" : outcome === "cut" ? "unknown" : "whole");
      if (outcome === "left") abort(address);
    };
    return streamRun(address, { context, runs, request, reply, translator: answer.translator(address), onClose });
  }

  async function readWhole(address: RunAddress): Promise<object> {
    const whole = new WholeRun(address, reply);
    streams.add(whole, request.caller);
    try {
      const summary = await whole.read(await runs.follow(address, whole));
      const said = answer.whole(address, mustBeWhole(summary));
      end("whole");
      return said;
    } catch (error) {
      end(whole.hasLeft ? "left" : "failed");
      if (whole.hasLeft) abort(address);
      throw error;
    }
  }

  function abort(address: RunAddress): void {
    runs
      .abort(context.commands.newIdentity(caller), address)
      .catch((error) => log.warn({ err: error, traceId: request.id }, "a run could not be ended"));
  }
}

/** @throws AppError for a run that failed or was aborted */
function mustBeWhole(summary: RunSummary): RunSummary {
  if (summary.failure) throw errorOf(summary.failure);
  if (summary.isCancelled) throw new AppError("session_archived", ABORTED, { facts: { code: "aborted" } });
  return summary;
}
