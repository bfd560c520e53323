import { type Catalog, findAgent } from "../config/catalog/catalog.ts";
import { type Caller, ownerOf } from "../gateway/access/caller.ts";
import { type Chat, chatCommand, newTarget, type Target } from "../gateway/chat-commands.ts";
import type { Identity } from "../gateway/idempotent-commands.ts";
import type { TurnContext } from "../gateway/route-context.ts";
import { noticeOfWait } from "../gateway/routes/command-answer.ts";
import type { Sentences } from "../gateway/sentences.ts";
import type { Followers } from "../gateway/streams/followers.ts";
import { FollowedSessionLog } from "../gateway/streams/log-stream.ts";
import type { Decision } from "../protocol/decision.ts";
import { AppError } from "../protocol/errors.ts";
import type { LogEntry, LoggedData } from "../protocol/event.ts";
import type { AgentId, FloorId, RequestId, RunId, Seq, SessionId } from "../protocol/ids.ts";
import type { Answer, ToolCall } from "../protocol/interaction.ts";
import type { WantedSession } from "../protocol/internal/command.ts";
import type { Accepted } from "../protocol/internal/reply.ts";
import type { AgentRef } from "../protocol/message.ts";
import type { Routed } from "../protocol/routed.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { BlobStore, LogStore } from "../store/store.ts";
import { type RunListener, RunReader } from "./run-reader.ts";

/** A user's message and its session. The session is created if it does not exist. */
export interface WantedTurn extends Pick<WantedSession, "userId" | "zone" | "workspaceId" | "title" | "endsWithTurn"> {
  /** The client's name for the session; absent: a new one. */
  sessionId?: SessionId | undefined;
  /** The agent that answers. Absent: the session's agent, or for a new session the agent that `routing` names. */
  agentId?: AgentId | undefined;
  chat: Chat;
  /** What the user says, if the message has more than that: who hears it goes by this. */
  sentence?: string | undefined;
  /**
   * Called before the message is sent, unless it was sent before. If the session has changed since what it saw, it is
   * called again. @throws AppError to refuse the message
   */
  check?: (() => Promise<SeenSession>) | undefined;
  /** How much of the session's reply before was spoken, in UTF-16 units. */
  playedUpTo?: number | undefined;
}

/** A session, and the newest `seq` of its log. */
interface SeenSession {
  sessionId: SessionId;
  seq: Seq;
}

/** How often a session may change between a check and the message, before the message is refused. */
const MAX_CHECKS = 5;

/** The tool calls of a run before the `seq` from which it is read. */
export interface EarlierCalls {
  readonly ids: ReadonlySet<string>;
  /** Calls without a result. */
  readonly open: ReadonlyMap<string, ToolCall & { agent: AgentRef }>;
  /** The newest request for consent to a call, by the call's id. */
  readonly confirmations: ReadonlyMap<string, RequestId>;
}

/** A run, and the log position from which it is read. */
export interface RunAddress {
  sessionId: SessionId;
  floorId: FloorId;
  runId: RunId;
  /** The `seq` of the session's log after which the run is read. */
  after: Seq;
  hasBegun: boolean;
  /** Absent: the run is read from its beginning. */
  earlier?: EarlierCalls | undefined;
  /** Questions and confirmations of the run that were answered before the reading began. */
  resolved: ReadonlySet<RequestId>;
  /** The arbiter's decision, if the turn asked for the floor. */
  decision?: Decision | undefined;
  /** Which agent hears the turn's sentence, if it named none. */
  routed?: Routed | undefined;
  /** How much of the reply before counts as heard, if the turn said so. */
  playedUpTo?: number | undefined;
  /** What the run waits for, if no node starts it. */
  notice?: string | undefined;
}

/** The headers by which an answer names its run. */
export const headersOf = ({ sessionId, runId, notice }: RunAddress) => ({
  "interlock-session": sessionId,
  "interlock-run": runId,
  ...(notice !== undefined && { "interlock-notice": notice }),
});

/** An active reading of a run. */
export interface Following {
  /** Continue, because the client has caught up. */
  advance(): void;
  /** Stop reading. Further calls do nothing. */
  close(): void;
}

const IGNORED = "Nobody hears this sentence: a row of routing ignores it.";

const NONE: ReadonlySet<RequestId> = new Set();
/** Events per read in the search for the beginning of a run. */
const FIRST_PAGE = 32;
const NEXT_PAGES = 256;

export interface LiveRunsContext extends TurnContext {
  catalog: () => Catalog;
  sentences: Sentences;
  followers: Followers;
  store: LogStore & BlobStore;
  clock: Clock;
}

/** Starts, reads, answers and ends runs for doors of other protocols. */
export class LiveRuns {
  readonly #context: LiveRunsContext;

  constructor(context: LiveRunsContext) {
    this.#context = context;
  }

  /**
   * Send a message to a session, and read its run.
   * @throws AppError for a refusal, with the arbiter's decision if the arbiter refused
   */
  async begin<T>(identity: Identity, wanted: WantedTurn, read: (address: RunAddress) => Promise<T>): Promise<T> {
    const { commands } = this.#context;
    return await this.#listening(async (listen) => {
      const send = (one: Identity) =>
        commands.carryOut(one, async () => {
          const seen = await wanted.check?.();
          const target = await this.#findTarget(identity, wanted);
          const command = await chatCommand(
            this.#context,
            { ...wanted.chat, playedUpTo: wanted.playedUpTo },
            target,
            identity,
          );
          await listen(target.floorId);
          const ifSeq = seen?.sessionId === target.sessionId ? seen?.seq : undefined;
          return { floorId: target.floorId, command, ifSeq };
        });
      const reply = await this.#whileStale(identity, wanted.check ? MAX_CHECKS : 1, send);
      if (reply.routed?.ignored) throw new AppError("rejected", IGNORED, { facts: { routed: reply.routed } });
      return await read(await this.addressOf(identity.caller, reply));
    });
  }

  /**
   * Send a message again as long as its session has changed since it was checked. A refusal is remembered by its key,
   * so each try has another one, which follows from the one before: a repeat of the request finds the accepted try.
   */
  async #whileStale(identity: Identity, tries: number, send: (one: Identity) => Promise<Accepted>): Promise<Accepted> {
    try {
      return await send(identity);
    } catch (error) {
      if (tries <= 1 || !(error instanceof AppError) || error.code !== "stale") throw error;
      const commandId = this.#context.commands.deriveId(identity, "checked_again");
      return await this.#whileStale({ ...identity, commandId }, tries - 1, send);
    }
  }

  /** Where the run is read that a command has begun. */
  async addressOf(caller: Caller, { sessionId, runId, decision, routed, playedUpTo }: Accepted): Promise<RunAddress> {
    if (sessionId === undefined || runId === undefined) throw new AppError("internal");
    const { floorId } = await this.#context.visibleTo(caller).locate(sessionId);
    const start = await this.#findStart(sessionId, undefined, (run) => run === runId);
    const { seq: after = 0, resolved = NONE } = start ?? {};
    return {
      sessionId,
      floorId,
      runId,
      after,
      hasBegun: false,
      resolved,
      decision,
      routed,
      playedUpTo,
      notice: noticeOfWait(this.#context),
    };
  }

  /** Answer the questions that a run waits for, and read the run from the last of these questions on. */
  async answer<T>(
    identity: Identity,
    session: SessionId,
    answers: readonly Answer[],
    read: (address: RunAddress) => Promise<T>,
  ): Promise<T> {
    const { sessionId, floorId } = await this.#context.visibleTo(identity.caller).locate(session);
    return await this.#listening(async (listen) => {
      await listen(floorId);
      const { runId, requestId } = await this.#sendAnswers(identity, { sessionId, floorId }, answers);
      const { seq: after, resolved } = await this.#findRequest(sessionId, requestId);
      const earlier = await this.#findEarlierCalls(sessionId, runId, after);
      return await read({
        sessionId,
        floorId,
        runId,
        after,
        hasBegun: true,
        earlier,
        resolved,
        notice: noticeOfWait(this.#context),
      });
    });
  }

  /** @returns the run, and the last question that was answered */
  async #sendAnswers(
    identity: Identity,
    { sessionId, floorId }: Target,
    answers: readonly Answer[],
  ): Promise<{ runId: RunId; requestId: RequestId }> {
    const { commands } = this.#context;
    let answered: { runId: RunId; requestId: RequestId } | undefined;
    let refusal: unknown;
    for (const answer of answers) {
      const { requestId } = answer;
      const part: Identity = { ...identity, commandId: commands.deriveId(identity, `answer ${requestId}`) };
      const command = { type: "session.answer" as const, sessionId, requestId, answer };
      try {
        const { runId } = await commands.carryOut(part, async () => ({ floorId, command }));
        if (runId !== undefined) answered = { runId, requestId };
      } catch (error) {
        refusal ??= error;
      }
    }
    if (!answered) throw refusal ?? new AppError("interaction_not_found");
    return answered;
  }

  /**
   * Follow a floor from before a command until its run is read. A follower that opens later misses the first text,
   * which it then gets only with the next report of the worker.
   */
  async #listening<T>(work: (listen: (floorId: FloorId) => Promise<void>) => Promise<T>): Promise<T> {
    const { followers } = this.#context;
    const joined: FloorId[] = [];
    const listen = async (floorId: FloorId) => {
      // If it fails, `follow` fails too, and answers as it does for a run that cannot be read.
      const isJoined = await followers.join(floorId).then(Boolean, () => false);
      if (isJoined) joined.push(floorId);
    };
    try {
      return await work(listen);
    } finally {
      for (const floorId of joined) followers.leave(floorId);
    }
  }

  /**
   * The newest run of a session that has not ended; undefined if there is none. @throws AppError `session_not_found`
   */
  async find(caller: Caller, id: SessionId): Promise<RunAddress | undefined> {
    const sessions = this.#context.visibleTo(caller);
    const { session, head } = await sessions.view((await sessions.current(id))?.id ?? id, 0);
    const { activity, queuedAt, floorId, id: sessionId } = session;
    if (activity !== "running" && activity !== "waiting" && queuedAt === undefined) return undefined;
    const start = await this.#findStart(sessionId, head, (_, hasEnded) => !hasEnded);
    if (!start) return undefined;
    const { runId, seq: after, resolved } = start;
    return { sessionId, floorId, runId, after, hasBegun: false, resolved };
  }

  /** Read a run from its position. */
  async follow(address: RunAddress, listener: RunListener): Promise<Following> {
    const { followers, store, clock } = this.#context;
    const { sessionId, floorId, earlier } = address;
    const follower = await followers.join(floorId);
    const log = new FollowedSessionLog(store, sessionId);
    const reader = new RunReader({ ...address, earlierCalls: earlier?.ids ?? [], follower, log, listener, clock });
    let isOpen = true;
    return {
      advance: () => reader.advance(),
      close: () => {
        if (!isOpen) return;
        isOpen = false;
        reader.close();
        followers.leave(floorId);
      },
    };
  }

  /** End a run, or withdraw its turn. Has no effect on a run that has ended, or on the session's other runs. */
  async abort(identity: Identity, { sessionId, floorId, runId }: RunAddress): Promise<void> {
    const command = { type: "session.abort" as const, sessionId, runId };
    await this.#context.commands.carryOut(identity, async () => ({ floorId, command }));
  }

  async #findTarget(identity: Identity, wanted: WantedTurn): Promise<Target> {
    const { caller } = identity;
    const { sessionId: named, agentId, chat: _, sentence: __, playedUpTo: ___, check: ____, ...rest } = wanted;
    const sessions = this.#context.visibleTo(caller);
    const found = named && (await sessions.current(named));
    if (!found) {
      const made = named && (await sessions.idFor(ownerOf(caller, rest.userId), named));
      const target = newTarget(caller, made ?? this.#context.commands.deriveId(identity, "session"), {
        ...rest,
        agentId,
        locale: identity.locale,
      });
      if (agentId !== undefined) return target;
      return await this.#context.sentences.route(caller, wanted.sentence ?? wanted.chat.content, target, false);
    }
    const { id: sessionId, floorId } = found;
    if (agentId !== undefined) await this.#switchTo(identity, agentId, { sessionId, floorId });
    return { sessionId, floorId };
  }

  /** If the client names another agent, switch the session to it. */
  async #switchTo(identity: Identity, agentId: AgentId, { sessionId, floorId }: Target): Promise<void> {
    const { commands, visibleTo, catalog } = this.#context;
    const current = await visibleTo(identity.caller).agentOf(sessionId);
    // An agent of a workspace is named by its name or its id.
    if (current?.agentId === (findAgent(catalog(), agentId, current?.workspaceId)?.id ?? agentId)) return;
    const part: Identity = { ...identity, commandId: commands.deriveId(identity, "switch_agent") };
    const command = { type: "session.switch_agent" as const, sessionId, agentId };
    const { outcome } = await commands.carryOut(part, async () => ({ floorId, command }));
    if (!outcome?.errorCode) return;
    const { errorCode, message, availableAgents } = outcome;
    throw new AppError(errorCode, message, availableAgents ? { facts: { availableAgents } } : {});
  }

  /**
   * Find the message that began the newest matching run, by reading the log backwards.
   * @param upTo where the search begins; absent: the end of the log
   */
  async #findStart(
    sessionId: SessionId,
    upTo: Seq | undefined,
    fits: (runId: RunId, hasEnded: boolean) => boolean,
  ): Promise<{ seq: Seq; runId: RunId; resolved: ReadonlySet<RequestId> } | undefined> {
    const ended = new Set<RunId>();
    const resolved = new Set<RequestId>();
    return await this.#searchBack(sessionId, upTo, ({ type, json, seq, requestId }) => {
      if (type === "interaction_resolved") resolved.add(requestId!);
      if (type === "complete") ended.add((JSON.parse(json) as LoggedData<"complete">).runId);
      if (type !== "message") return undefined;
      const { role, runId } = JSON.parse(json) as LoggedData<"message">;
      if (role !== "user" || runId === undefined || !fits(runId, ended.has(runId))) return undefined;
      return { seq: seq!, runId, resolved };
    });
  }

  /** Find a question, and what was answered since. */
  async #findRequest(sessionId: SessionId, asked: RequestId): Promise<{ seq: Seq; resolved: ReadonlySet<RequestId> }> {
    const resolved = new Set<RequestId>();
    const seq = await this.#searchBack(sessionId, undefined, ({ type, seq, requestId }) => {
      if (type === "interaction_resolved") resolved.add(requestId!);
      const isRequest = type === "user_question_request" || type === "tool_confirmation_request";
      return isRequest && requestId === asked ? seq : undefined;
    });
    return { seq: seq ?? 0, resolved };
  }

  /** The tool calls of a run up to a `seq`, from its log, which is read backwards to the beginning of the turn. */
  async #findEarlierCalls(sessionId: SessionId, runId: RunId, upTo: Seq): Promise<EarlierCalls> {
    const ids = new Set<string>();
    const open = new Map<string, ToolCall & { agent: AgentRef }>();
    const confirmations = new Map<string, RequestId>();
    const ended = new Set<string>();
    await this.#searchBack(sessionId, upTo, ({ type, json, requestId }) => {
      switch (type) {
        case "tool_result":
          ended.add((JSON.parse(json) as LoggedData<"tool_result">).toolCallId);
          return undefined;
        case "tool_call": {
          const call = JSON.parse(json) as LoggedData<"tool_call">;
          ids.add(call.toolCallId);
          if (!ended.has(call.toolCallId)) open.set(call.toolCallId, call);
          return undefined;
        }
        case "tool_confirmation_request": {
          const { toolCallId } = (JSON.parse(json) as LoggedData<"tool_confirmation_request">).toolCall;
          if (!confirmations.has(toolCallId)) confirmations.set(toolCallId, requestId!);
          return undefined;
        }
        case "session_transition": {
          const { event, runId: begun } = JSON.parse(json) as LoggedData<"session_transition">;
          return event === "turn" && begun === runId ? true : undefined;
        }
        default:
          return undefined;
      }
    });
    return { ids, open, confirmations };
  }

  /** The newest result of `read` for an entry at or before a `seq`. */
  async #searchBack<T>(
    sessionId: SessionId,
    upTo: Seq | undefined,
    read: (entry: LogEntry) => T | undefined,
  ): Promise<T | undefined> {
    const { store } = this.#context;
    let to = upTo ?? (await store.readSessionLog(sessionId, 0, 1))?.head ?? 0;
    for (let page = FIRST_PAGE; to > 0; page = NEXT_PAGES) {
      const from = Math.max(0, to - page);
      const entries: LogEntry[] = [];
      // A page ends early after many bytes.
      for (let at: Seq = from; at < to; ) {
        const slice = await store.readSessionLog(sessionId, at, to - at);
        if (!slice || slice.entries.length === 0) break;
        entries.push(...slice.entries);
        at = slice.entries.at(-1)!.seq!;
      }
      for (const entry of entries.toReversed()) {
        const found = read(entry);
        if (found !== undefined) return found;
      }
      to = from;
    }
    return undefined;
  }
}
