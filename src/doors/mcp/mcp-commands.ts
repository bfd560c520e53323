import { z } from "zod";
import type { Bus } from "../../bus/bus.ts";
import { type Catalog, isOpenTo } from "../../config/catalog/catalog.ts";
import type { Caller } from "../../gateway/access/caller.ts";
import { newTarget } from "../../gateway/chat-commands.ts";
import type { Identity } from "../../gateway/idempotent-commands.ts";
import { noticeOf } from "../../gateway/routes/command-answer.ts";
import type { Streams } from "../../gateway/streams/open-streams.ts";
import { MAX_CONTENT } from "../../protocol/client-message.ts";
import { AppError } from "../../protocol/errors.ts";
import { AgentId, type FloorId, floorOfUser, IfSeq, Name, RequestId, type Seq, SessionId } from "../../protocol/ids.ts";
import {
  type Answer,
  ConfirmationResponse,
  confirmationAnswer,
  QuestionResponse,
  questionAnswer,
} from "../../protocol/interaction.ts";
import type { Command as FloorCommand } from "../../protocol/internal/command.ts";
import type { Timer } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import { cleanText } from "../../shared/text.ts";
import { mayBeEmpty } from "../absent.ts";
import type { Following, LiveRuns, LiveRunsContext, RunAddress } from "../live-runs.ts";
import { mustHaveRoom } from "../run-stream.ts";
import type { RunSummary } from "../run-summary.ts";
import { WholeRun } from "../whole-run.ts";

/** A command of Interlock as a tool. Its promise resolves with the tool's result. */
export interface McpCommand {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodObject;
  readonly isReadOnly: boolean;
  run(input: never, call: McpCall): Promise<object>;
}

/** What may end a call before its time. */
export interface McpCall {
  /** The key and the content of the call, by which a repeat of it is recognised. */
  identity: Identity;
  /** The client has cancelled the call: its result is not sent, and a run that it began or continued is aborted. */
  cancelled: AbortSignal;
  /**
   * From now on, answer only as long as the client keeps both sides of its connection open. The run continues without
   * it, because the client can read the reply in another call.
   * @returns aborts when the client has disconnected
   */
  endWithClient: () => AbortSignal;
  /**
   * Tell the client how long the call has waited, and how long it may, in s. Absent: the client has not asked for it.
   */
  progress: ((waited: number, total: number) => void) | undefined;
}

/** What the tools and their route depend on. */
export interface McpContext extends LiveRunsContext {
  streams: Streams;
  catalog: () => Catalog;
  isAvailable: (id: AgentId) => boolean;
  bus: Bus;
  log: Logger;
  version: string;
}

export interface McpCommandsOptions {
  context: McpContext;
  runs: LiveRuns;
  caller: Caller;
}

/** How long a tool waits for a reply by default, in s: less than most clients wait for a tool. */
const WAIT_S = 45;
const MAX_WAIT_S = 600;
/** How often a client that asked for it learns that its call still waits, in s. */
const PROGRESS_S = 1;
/** The maximum number of sessions and decisions in a floor's view. */
const SHOWN_SESSIONS = 50;
const SHOWN_DECISIONS = 10;

const Session = { sessionId: SessionId.describe("The session id that ask_for_floor returned.") };
const Command = {
  ...Session,
  ifSeq: IfSeq.optional().describe(
    "The seq of the session in an earlier answer: if anything has happened in it since, nothing changes, and the error has the session as it is.",
  ),
};
const Wait = {
  waitSeconds: z
    .number()
    .min(0)
    .max(MAX_WAIT_S)
    .default(WAIT_S)
    .describe("How long to wait for the reply. The run continues afterwards, and read_reply can wait for it again."),
};
const FloorChoice = {
  userId: mayBeEmpty(Name).describe("The user for whose attention sessions compete. Default: you."),
  zone: mayBeEmpty(Name).describe("One of the user's places, such as a seat."),
};

/** The tools for one caller. */
export function mcpCommands({ context, runs, caller }: McpCommandsOptions): McpCommand[] {
  const { commands, streams, clock, catalog } = context;
  const sessions = context.visibleTo(caller);
  const reader = caller.ownerId === undefined ? undefined : caller;

  async function send(
    id: SessionId,
    type: "activate" | "pause" | "resume" | "archive",
    ifSeq: Seq | undefined,
    { identity }: Pick<McpCall, "identity">,
  ) {
    const { session, decision, seq } = await commands.carryOut(identity, async () => {
      const { sessionId, floorId } = await sessions.locate(id);
      const command: FloorCommand = { type: `session.${type}`, sessionId };
      return { floorId, command, ifSeq };
    });
    return { sessionId: id, state: session?.state, ...(seq !== undefined && { seq }), ...(decision && { decision }) };
  }

  async function open(wanted: Parameters<typeof newTarget>[2], { identity }: Pick<McpCall, "identity">) {
    const { sessionId, floorId, creates } = newTarget(caller, commands.deriveId(identity, "session"), {
      ...wanted,
      locale: identity.locale,
    });
    const command: FloorCommand = { type: "session.create", sessionId, session: creates, activate: true };
    const { session, decision, seq } = await commands.carryOut(identity, async () => ({ floorId, command }));
    return {
      sessionId,
      state: session?.state,
      ...(seq !== undefined && { seq }),
      ...(decision && { decision }),
      ...noticeOf(creates),
    };
  }

  /** Collect the output of a run for a limited time. The run continues afterwards. */
  async function readReply(
    address: RunAddress,
    waitSeconds: number,
    { cancelled, endWithClient, progress }: Omit<McpCall, "identity">,
  ) {
    const whole = new WholeRun(address);
    streams.add(whole, reader);
    let beat: Timer | undefined;
    const notify = (waited: number) => {
      progress?.(waited, waitSeconds);
      if (progress) beat = clock.after(PROGRESS_S * 1_000, () => notify(waited + PROGRESS_S));
    };
    notify(0);
    const timer = clock.after(waitSeconds * 1_000, () => whole.stopWaiting());
    const over = AbortSignal.any([cancelled, endWithClient()]);
    const onOver = () => whole.stopWaiting();
    over.addEventListener("abort", onOver, { once: true });
    if (over.aborted) onOver();
    let following: Following | undefined;
    try {
      following = await runs.follow(address, whole);
      return replyOf(address, await whole.read(following));
    } finally {
      timer.cancel();
      beat?.cancel();
      over.removeEventListener("abort", onOver);
      whole.stopWaiting();
      // Its stream may have been closed before the reading began.
      following?.close();
    }
  }

  /** The same for a run that the call itself has begun or continued. */
  async function readOwnReply(address: RunAddress, waitSeconds: number, call: McpCall) {
    try {
      return await readReply(address, waitSeconds, call);
    } finally {
      if (call.cancelled.aborted) await runs.abort(commands.newIdentity(caller), address);
    }
  }

  const floorIn = (userId: string | undefined, zone: string | undefined): FloorId => {
    const user = userId ?? caller.ownerId;
    if (user === undefined)
      throw new AppError("bad_request", "userId is required, because this node does not authenticate callers.");
    return floorOfUser(user, zone);
  };

  const define = <Shape extends z.ZodRawShape>(
    name: string,
    description: string,
    shape: Shape,
    run: (input: z.infer<z.ZodObject<Shape>>, call: McpCall) => Promise<object>,
    isReadOnly = false,
  ): McpCommand => ({ name, description, input: z.object(shape), isReadOnly, run: run as McpCommand["run"] });

  return [
    define(
      "list_agents",
      "List the agents that can request the floor, with their priorities.",
      {},
      async () => {
        const enabled = [...catalog().agents.values()].filter((agent) => agent.enabled && isOpenTo(agent, undefined));
        return {
          agents: enabled.map(({ id, label, description, priority, interruptible }) => {
            return { id, name: label, description, priority, interruptible, available: context.isAvailable(id) };
          }),
        };
      },
      true,
    ),
    define(
      "ask_for_floor",
      "Request the floor for an agent, so that it may speak: for a new or an existing session. The decision has the reason.",
      {
        sessionId: mayBeEmpty(SessionId).describe("Absent: a new session."),
        agentId: mayBeEmpty(AgentId),
        ...FloorChoice,
        ifSeq: Command.ifSeq,
      },
      async ({ sessionId, ifSeq, ...wanted }, call) =>
        sessionId === undefined ? open(wanted, call) : send(sessionId, "activate", ifSeq, call),
    ),
    define(
      "speak",
      "Send a message to a session's agent, and get its reply. A session without the floor requests it.",
      {
        ...Session,
        content: z.string().min(1).max(MAX_CONTENT),
        played: z
          .int()
          .nonnegative()
          .optional()
          .describe("How much of the reply before was spoken, in UTF-16 units, if it was interrupted."),
        ...Wait,
      },
      async ({ sessionId, content, played: playedUpTo, waitSeconds }, call) => {
        await sessions.addressOf(sessionId);
        mustHaveRoom(streams, reader);
        const chat = { content: cleanText(content) };
        return runs.begin(call.identity, { sessionId, chat, playedUpTo }, (address) =>
          readOwnReply(address, waitSeconds, call),
        );
      },
    ),
    define(
      "read_reply",
      "Continue to wait for the current reply.",
      { ...Session, ...Wait },
      async ({ sessionId, waitSeconds }, call) => {
        mustHaveRoom(streams, reader);
        const address = await runs.find(caller, sessionId);
        return address ? readReply(address, waitSeconds, call) : { sessionId, isRunning: false };
      },
      true,
    ),
    define(
      "answer",
      "Answer the question or the confirmation at the end of a reply.",
      {
        ...Session,
        requestId: RequestId,
        response: QuestionResponse.optional().describe(
          "To a question: the answer, or {selected, customInput, cancelled}.",
        ),
        verdict: ConfirmationResponse.optional().describe("To a confirmation."),
        ...Wait,
      },
      async ({ sessionId, requestId, response, verdict, waitSeconds }, call) => {
        mustHaveRoom(streams, reader);
        let answer: Answer;
        if (verdict !== undefined) answer = confirmationAnswer(requestId, verdict);
        else if (response !== undefined) answer = questionAnswer(requestId, response);
        else throw new AppError("bad_request", "The answer has neither response nor verdict. Add one of them.");
        return runs.answer(call.identity, sessionId, [answer], (address) => readOwnReply(address, waitSeconds, call));
      },
    ),
    define(
      "pause",
      "Pause a session: its run waits, and another session may speak.",
      Command,
      async ({ sessionId, ifSeq }, call) => send(sessionId, "pause", ifSeq, call),
    ),
    define(
      "resume",
      "Request the floor for a paused session, which continues where it stopped.",
      Command,
      async ({ sessionId, ifSeq }, call) => send(sessionId, "resume", ifSeq, call),
    ),
    define(
      "abort",
      "End the run of a session. Its text so far is kept.",
      Session,
      async ({ sessionId }, { identity }) => {
        const address = await runs.find(caller, sessionId);
        if (address) await runs.abort(identity, address);
        return { sessionId, aborted: address !== undefined };
      },
    ),
    define(
      "give_up_floor",
      "End a session permanently. The next session gets the floor.",
      Command,
      async ({ sessionId, ifSeq }, call) => send(sessionId, "archive", ifSeq, call),
    ),
    define(
      "read_floor",
      "Read which session has the floor, which sessions wait, and the last decisions with their reasons.",
      FloorChoice,
      async ({ userId, zone }) => {
        const floorId = await sessions.floor(floorIn(userId, zone));
        const view = await sessions.floorView(floorId, { sessions: SHOWN_SESSIONS, decisions: SHOWN_DECISIONS });
        const { holder, paused, queued, decisions, flags } = view;
        const brief = ({ id, agentId, title, state, activity }: NonNullable<typeof holder>) => ({
          sessionId: id,
          agentId,
          title,
          state,
          activity,
        });
        return {
          floorId,
          holder: holder ? brief(holder) : null,
          paused: paused.map(brief),
          queued: queued.map(brief),
          flags,
          decisions,
        };
      },
      true,
    ),
    define(
      "what_if",
      "Preview what the arbiter would decide if an agent requested the floor now. Changes nothing.",
      { agentId: AgentId, ...FloorChoice },
      async ({ agentId, userId, zone }, { identity }) => {
        const floorId = await sessions.floor(floorIn(userId, zone));
        const about = { agentId, locale: identity.locale };
        const { decision, refused } = await commands.preview(identity.caller, floorId, about, identity.trace);
        return refused ? { refused: { code: refused.code, message: refused.message } } : { decision };
      },
      true,
    ),
  ];
}

function replyOf({ sessionId, runId, decision, playedUpTo, notice }: RunAddress, summary: RunSummary): object {
  const { text, outcome, openInteraction, failure, isCancelled, finishReason, nativeFinishReason } = summary;
  if (failure) {
    const { code, message, retryAfterMs } = failure;
    throw new AppError(code, message, {
      facts: { sessionId, text, ...(retryAfterMs !== undefined && { retryAfterMs }) },
    });
  }
  return {
    sessionId,
    runId,
    text,
    isRunning: outcome !== "ended",
    ...(isCancelled && { isCancelled }),
    ...(finishReason && { finishReason }),
    ...(nativeFinishReason !== undefined && { nativeFinishReason }),
    ...(openInteraction && {
      asked: { kind: openInteraction.kind, requestId: openInteraction.requestId, ...openInteraction.data },
    }),
    ...(decision && { decision }),
    ...(playedUpTo !== undefined && { played: playedUpTo }),
    ...(notice !== undefined && outcome !== "ended" && { notice }),
  };
}
