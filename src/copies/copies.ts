import type { Caller } from "../gateway/access/caller.ts";
import type { VisibleSessions } from "../gateway/access/visible-sessions.ts";
import { checkContent, keepImages, newTurn } from "../gateway/chat-commands.ts";
import type { Identity, Write } from "../gateway/idempotent-commands.ts";
import type { CommandContext } from "../gateway/route-context.ts";
import type { ImageInput } from "../protocol/client-message.ts";
import { AppError } from "../protocol/errors.ts";
import {
  type AgentId,
  type ConnectionId,
  floorOf,
  type MessageId,
  type RunId,
  type Seq,
  type SessionId,
} from "../protocol/ids.ts";
import type { CommandOf } from "../protocol/internal/command.ts";
import type { Accepted } from "../protocol/internal/reply.ts";
import type { Message } from "../protocol/message.ts";
import { NEW_TITLE, type Origin, type Session } from "../protocol/session.ts";
import { changedSettings, type SessionSettings } from "../protocol/session-settings.ts";
import type { BlobStore } from "../store/store.ts";
import { type CopyEnd, copyHistory, copyImages, isFinished } from "./copied-history.ts";
import { Histories, type HistoriesOptions } from "./histories.ts";
import type { StagedHistory } from "./staged-history.ts";

/** How often a move is tried while events of its session come faster than its messages are copied. */
const MOVE_TRIES = 5;
const ALREADY_REPLACED = "A copy has replaced this session already.";

/** The settings of the source that a copy begins with. */
interface Copy {
  source: Session;
  end: CopyEnd;
  by: Origin["by"];
  agentId?: AgentId | undefined;
  activate?: boolean;
  /** The session that is archived and replaced by the copy. */
  replaces?: Session | undefined;
}

/** A message of the user that is edited or repeated in a copy. */
interface Edit {
  /** The session that has the message. */
  source: SessionId;
  messageId: MessageId;
  /** Its id in the copy. Default: a new one. */
  id?: MessageId | undefined;
  content: string;
  /** Default: those of the message. */
  images?: readonly ImageInput[] | undefined;
  /** Default: that of the session which is replaced, else of the source. */
  agentId?: AgentId | undefined;
  /** The session that is archived and replaced by the copy. */
  replaces?: SessionId | undefined;
  connectionId?: ConnectionId | undefined;
}

/** What copies depend on. */
type CopiesContext = CommandContext & HistoriesOptions & { store: BlobStore };

/** Creates sessions that begin with another session's messages. */
export class Copies {
  readonly histories: Histories;
  readonly #context: CopiesContext;

  constructor(context: CopiesContext) {
    this.histories = new Histories(context);
    this.#context = context;
  }

  /**
   * Copy a session's messages, and make the command that creates a session with them.
   * @throws AppError `session_archived` if another copy has replaced the session that this one is to replace
   */
  async copy(caller: Caller, history: StagedHistory, { source, end, by, ...of }: Copy) {
    const { store, clock, visibleTo } = this.#context;
    const sessions = visibleTo(caller);
    if (of.replaces?.replacedBy !== undefined) throw new AppError("session_archived", ALREADY_REPLACED);
    const messageId = await copyHistory({ store, clock, sessions, source: source.id, into: history }, end);
    const { replaces } = of;
    const like = replaces ?? source;
    const { userId, zone, locale, ownerId, workspaceId, agentId } = like;
    const { sessionId } = history;
    const floorId = floorOf(sessionId, userId, zone);
    const command: CommandOf<"session.copy"> = {
      type: "session.copy",
      sessionId,
      session: {
        sessionId,
        agentId: of.agentId ?? agentId,
        ...{ userId, zone, locale, ownerId, workspaceId },
        ...settingsOf(like),
        // A mode belongs to its agent.
        ...((of.agentId ?? agentId) !== agentId && { mode: undefined }),
      },
      history: await history.finish({ by, sessionId: source.id, ...(messageId !== undefined && { messageId }) }),
      // A session without a user has its own floor, so it passes no floor on.
      activate: of.activate ?? (replaces !== undefined && floorId !== replaces.floorId && replaces.state === "active"),
      ...(replaces && floorId === replaces.floorId && { replaces: replaces.id }),
    };
    return { floorId, command };
  }

  /**
   * Edit a message of the user: a copy ends before it and goes on with the new content. If the floor is refused, no
   * copy is made.
   * @throws AppError `not_found`, `illegal_command`, `rejected`, or for the content
   */
  async edit(identity: Identity, { source: of, messageId, id, content, images, ...rest }: Edit): Promise<Accepted> {
    const { store, clock, visibleTo, commands } = this.#context;
    const { caller } = identity;
    const { agentId, replaces: replaced, connectionId } = rest;
    const plan = async (history: StagedHistory): Promise<Write> => {
      const sessions = visibleTo(caller);
      const { session: source } = await sessions.view(of, 0);
      const replaces = replaced && (replaced === of ? source : (await sessions.view(replaced, 0)).session);
      const edited = await this.userMessage(caller, source.id, messageId);
      checkContent(content, (images ?? edited.images)?.length ?? 0);
      const { floorId, command } = await this.copy(caller, history, {
        ...{ source, end: { before: messageId }, by: "edit" as const, agentId, replaces },
      });
      if (!images) await copyImages({ store, clock, source: source.id, into: history }, edited.images ?? []);
      const shown = images ? await keepImages(this.#context, history.sessionId, images) : (edited.images ?? []);
      const turn = newTurn(commands, identity, { id, content, images: shown });
      return { floorId, command: { ...command, turn, activate: true } };
    };
    const reply = await this.histories.create(identity, connectionId, plan);
    if (replaced !== undefined) await this.archiveReplaced(caller, identity, reply, replaced);
    return reply;
  }

  /**
   * Take back the end of a session: a copy without it replaces the session.
   * @param findStart the user's message with which the part to take back begins
   * @throws AppError `session_not_found`, `session_archived`, or what `findStart` throws
   */
  async rollBack(
    identity: Identity,
    id: SessionId,
    findStart: (sessions: VisibleSessions, source: SessionId) => Promise<MessageId>,
  ): Promise<Accepted> {
    const { visibleTo } = this.#context;
    const { caller } = identity;
    const reply = await this.histories.create(identity, undefined, async (history) => {
      const sessions = visibleTo(caller);
      const { session: source } = await sessions.view(id, 0);
      const before = await findStart(sessions, source.id);
      return await this.copy(caller, history, { source, end: { before }, by: "rollback", replaces: source });
    });
    await this.archiveReplaced(caller, identity, reply, id);
    return reply;
  }

  /**
   * Archive the session that a copy replaces, if it is on another floor. The two floors commit one after the other; if
   * the node is lost in between, a repeat of the request continues here.
   * @throws AppError `session_archived` if another copy has replaced it; this copy is archived then
   */
  async archiveReplaced(
    caller: Caller,
    identity: Identity,
    { sessionId }: Accepted,
    replaced: SessionId,
  ): Promise<void> {
    const { commands, visibleTo } = this.#context;
    const sessions = visibleTo(caller);
    const made = sessionId && (await sessions.find(sessionId));
    // The copy may be deleted before a late repeat.
    if (!made || made.tombstone) return;
    const found = await sessions.find(replaced);
    if (!found || found.tombstone || found.floorId === made.floorId) return;
    const { session: copied } = await sessions.view(made.sessionId, 0);
    const by = { sessionId: copied.id, agentId: copied.agentId };
    const own = { ...identity, commandId: commands.deriveId<MessageId>(identity, "replace"), mayBeRepeat: true };
    await commands.carryOut(own, async () => ({
      floorId: found.floorId,
      command: { type: "session.replace", sessionId: found.sessionId, by },
    }));
    const { replacedBy } = (await sessions.view(found.sessionId, 0)).session;
    if (replacedBy === undefined || replacedBy === copied.id) return;
    // Another copy was made at the same time, and replaced it first.
    const withdrawn = { ...identity, commandId: commands.deriveId<MessageId>(identity, "withdraw"), mayBeRepeat: true };
    await commands.carryOut(withdrawn, async () => ({
      floorId: made.floorId,
      command: { type: "session.stop", sessionId: copied.id },
    }));
    throw new AppError("session_archived", ALREADY_REPLACED);
  }

  /**
   * Move a session to another floor of its user: it goes on there in a new session, with its messages, which keep their
   * ids, and with its unfinished turns. Both floors are committed together (rule C34). If the other floor refuses it,
   * nothing changes.
   * @param zone of the other floor; undefined: the one without a zone
   * @throws AppError `illegal_command` for a session without a user, or one that is there already; `rejected`, `stale`;
   *   `busy` if the session's events came faster than its messages could be copied
   */
  async move(
    identity: Identity,
    id: SessionId,
    { zone, ifSeq }: { zone: string | undefined; ifSeq: Seq | undefined },
  ): Promise<Accepted> {
    const { visibleTo } = this.#context;
    const sessions = visibleTo(identity.caller);
    for (let tries = 1; ; tries++) {
      let seq: Seq | undefined;
      try {
        return await this.histories.create(identity, undefined, async (history) => {
          const { session: source, head } = await sessions.view(id, 0);
          seq = head;
          return { ...(await this.#planMove(identity, history, source, zone, head)), ifSeq };
        });
      } catch (error) {
        const isBusy = error instanceof AppError && error.code === "busy";
        if (!isBusy || tries === MOVE_TRIES || (await sessions.view(id, 0)).head === seq) throw error;
      }
    }
  }

  async #planMove(
    identity: Identity,
    history: StagedHistory,
    source: Session,
    zone: string | undefined,
    seq: Seq,
  ): Promise<Write> {
    const { store, clock, visibleTo, commands } = this.#context;
    const { userId, locale, ownerId, workspaceId, agentId } = source;
    if (userId === undefined)
      throw new AppError("illegal_command", "A session without a user has a floor of its own, and no other one.");
    const { sessionId } = history;
    const floorId = floorOf(sessionId, userId, zone);
    if (floorId === source.floorId) throw new AppError("illegal_command", "The session is on this floor already.");
    const sessions = visibleTo(identity.caller);
    const { messages: unfinished, isRunning } = await sessions.unfinished(source.id);
    const [first] = unfinished;
    history.keepIds();
    const copying = { store, clock, sessions, source: source.id, into: history };
    const messageId = await copyHistory(copying, isRunning && first ? { before: first.id } : "newest");
    for (const { images = [] } of unfinished) await copyImages(copying, images);
    const turns = unfinished.map(({ id, content, images }, index) => ({
      messageId: id,
      runId: commands.deriveId<RunId>(identity, `run ${index}`),
      content,
      ...(images && { images }),
    }));
    const command: CommandOf<"session.move"> = {
      type: "session.move",
      sessionId,
      session: {
        ...{ sessionId, agentId, userId, zone, locale, ownerId, workspaceId },
        ...settingsOf(source),
      },
      history: await history.finish({
        by: "move",
        sessionId: source.id,
        ...(messageId !== undefined && { messageId }),
      }),
      from: { sessionId: source.id, floorId: source.floorId, seq },
      turns,
    };
    return { floorId, command };
  }

  /** @throws AppError `not_found`; `illegal_command` for a message of an agent, or a queued message */
  async userMessage(caller: Caller, id: SessionId, messageId: MessageId): Promise<Message> {
    const message = await this.#context.visibleTo(caller).message(id, messageId);
    if (message.role === "user" && isFinished(message)) return message;
    throw new AppError(
      "illegal_command",
      "This message cannot be sent again: it is an agent's message, or a user's message that still waits.",
    );
  }
}

/** The settings with which a copy begins, or a session goes on elsewhere. */
const settingsOf = ({ title, ...session }: Session): SessionSettings =>
  changedSettings({ ...session, ...(title !== NEW_TITLE && { title }) });
