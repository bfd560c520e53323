import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { Catalog } from "../../config/catalog/catalog.ts";
import type { CatalogStatus } from "../../config/catalog/watched-catalog.ts";
import type { AbandonedRuns, WaitEnd } from "../../gateway/deliveries/abandoned-runs.ts";
import type { Identity } from "../../gateway/idempotent-commands.ts";
import { AppError } from "../../protocol/errors.ts";
import { headersOf, type LiveRuns, type LiveRunsContext, type RunAddress, type WantedTurn } from "../live-runs.ts";
import {
  mustHaveRoom,
  type RunStreamContext,
  type RunTranslator,
  type StreamOutcome,
  streamRun,
} from "../run-stream.ts";
import type { RunSummary } from "../run-summary.ts";
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
  config: { conversation: { list } },
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
  abandoned: Pick<AbandonedRuns, "wait">;
}

/** What the routes of this door share. */
export interface OpenAiDoor {
  context: OpenAiContext;
  runs: LiveRuns;
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
 * Answer with a run. A client aborts the run by disconnecting, because it has no other way. If it cannot have read
 * anything by then, its answer may have been lost, so the run goes on for a while (rule C32).
 */
export async function answerWithRun(
  { context, runs, request, reply }: OpenAiRunOptions,
  { identity, target, readTurn }: OpenAiRequest,
  answer: OpenAiAnswer,
): Promise<FastifyReply> {
  const { streams, abandoned } = context;
  mustHaveRoom(streams, request.caller);
  const turn = readTurn();
  return "answers" in turn
    ? await runs.answer(identity, turn.sessionId, turn.answers, show)
    : await runs.begin(identity, { ...target, ...turn }, show);

  async function show(address: RunAddress): Promise<FastifyReply> {
    void reply.headers(headersOf(address));
    const endWait = abandoned.wait({ ...identity, delivery: request.delivery }, address);
    if (!answer.isStream) return reply.send(await readWhole(address, endWait));
    const onClose = (outcome: StreamOutcome) => endWait(WAIT_ENDS[outcome]);
    return streamRun(address, { context, runs, request, reply, translator: answer.translator(address), onClose });
  }

  async function readWhole(address: RunAddress, endWait: (end: WaitEnd) => void): Promise<object> {
    const whole = new WholeRun(address, reply);
    streams.add(whole, request.caller);
    try {
      const summary = await whole.read(await runs.follow(address, whole));
      if (whole.hasActed) request.delivery?.noteAct();
      // Who asks for it again after an abort wants another one.
      if (summary.isCancelled) request.delivery?.arrive();
      return answer.whole(address, mustBeWhole(summary));
    } finally {
      endWait(whole.hasLeft ? "left" : "answered");
    }
  }
}

/** What the end of a stream means for its run. */
const WAIT_ENDS: { readonly [outcome in StreamOutcome]: WaitEnd } = {
  ended: "answered",
  asks: "answered",
  cut: "answered",
  left: "stopped",
  unread: "unread",
};

/** @throws AppError for a run that failed or was aborted */
function mustBeWhole(summary: RunSummary): RunSummary {
  if (summary.failure) throw errorOf(summary.failure);
  if (summary.isCancelled) throw new AppError("session_archived", ABORTED, { facts: { code: "aborted" } });
  return summary;
}
