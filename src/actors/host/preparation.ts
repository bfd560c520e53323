// Rule C20 of docs/inside/correctness.md.
import { isReply } from "../../protocol/heard.ts";
import type { FloorId, MessageId, SessionId } from "../../protocol/ids.ts";
import { type CommandOf, type Envelope, sessionCreatedBy, type TurnInput } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import type { Message } from "../../protocol/message.ts";
import type { FloorStore, LogStore, MessageStore, SessionRow } from "../../store/store.ts";
import type { SessionContext } from "../session/session-context.ts";
import { isStopping } from "../session/worker-commands.ts";
import type { Activation } from "./activation.ts";
import type { FloorActors } from "./floor-actors.ts";
import type { Ledger } from "./ledger.ts";
import { saysPlayed } from "./played.ts";
import { readSession } from "./snapshot.ts";

/** What the preparation needs of a command. */
export interface PreparedCommand {
  readonly envelope: Envelope;
  /** Set after a commit conflict: the next try looks up whether the command's new ids are in use. */
  isSuspect: boolean;
}

/** Messages that are read at once to find the replies of a turn: most turns have one or two. */
const REPLY_PAGE = 16;
/** A position in a turn of more messages than these pages have counts nothing. */
const MAX_REPLY_PAGES = 64;

export type PreparationStore = FloorStore & MessageStore & LogStore;

/** Whether there are rows to load for the command. */
export function needsPreparation({ command }: Envelope, { actors }: Activation): boolean {
  const { type } = command;
  if (type === "session.chat" || type === "session.played" || type === "session.copy" || type === "session.move")
    return true;
  if (command.type === "run.report" && actors.machineState(command.sessionId)?.context.stopping) return true;
  return "sessionId" in command && command.sessionId !== undefined && !actors.has(command.sessionId);
}

/** Loads the rows that the commands of a floor need beside those of its snapshot. */
export class Preparation {
  readonly #floorId: FloorId;
  readonly #store: PreparationStore;

  constructor(floorId: FloorId, store: PreparationStore) {
    this.#floorId = floorId;
    this.#store = store;
  }

  /** @returns replies to the commands that the loaded rows alone decide; the actors are then not asked */
  async prepareAll<Pending extends PreparedCommand>(
    commands: readonly Pending[],
    activation: Activation,
    ledger: Ledger,
  ): Promise<Map<Pending, Reply>> {
    const refused = new Map<Pending, Reply>();
    const replies = new Map<SessionId, Promise<void>>();
    // Wait for all of them, even if one fails: a late one would load a session into actors that were dropped.
    const prepared = await Promise.allSettled(
      commands.map(async (pending) => {
        const refusal = await this.#prepare(pending, activation, ledger, replies);
        if (refusal) refused.set(pending, refusal);
      }),
    );
    for (const each of prepared) if (each.status === "rejected") throw each.reason;
    return refused;
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a further async step would delay each command that loads rows
  async #prepare(
    { envelope: { command }, isSuspect }: PreparedCommand,
    { actors, state }: Activation,
    ledger: Ledger,
    replies: Map<SessionId, Promise<void>>,
  ): Promise<Reply | undefined> {
    const sessionId = "sessionId" in command ? command.sessionId : undefined;
    if (sessionId === undefined) return undefined;
    const creates = sessionCreatedBy(command) !== undefined;
    if (command.type === "session.copy" && command.replaces !== undefined) {
      await this.#load(command.replaces, actors, state);
    }
    if (!actors.has(sessionId)) {
      // Most new ids are unused, and the commit detects the others.
      if (creates && !isSuspect) ledger.expectNew(sessionId);
      const where = creates && isSuspect ? await this.#store.whereIs(sessionId) : undefined;
      // Rule C20: a deleted session's id stays reserved while followers may still read up to the deletion.
      if (where?.tombstone) return { ok: false, code: "idempotency_mismatch" };
      const row = creates && !where ? undefined : await this.#store.loadSession(sessionId);
      if (row && row.session.floorId !== this.#floorId) {
        return { ok: false, code: creates ? "idempotency_mismatch" : "session_not_found" };
      }
      // Another command of this batch may have loaded the session meanwhile.
      if (row && !actors.has(sessionId)) loadRow(row, actors, state);
    }
    if (command.type === "run.report") await this.#recallMessages(command, actors, ledger);
    if (saysPlayed(command)) {
      // Once for all positions of a burst.
      const recalled = replies.get(sessionId) ?? this.#recallReplies(sessionId, actors, ledger);
      replies.set(sessionId, recalled);
      await recalled;
      if (command.type === "session.played" && !ledger.find(sessionId, command.messageId)) {
        const message = await this.#store.findMessage(sessionId, command.messageId);
        if (message) ledger.recall(message);
      }
    }
    if (command.type !== "session.chat") return undefined;
    const { turn } = command;
    // Another message's id is assumed to be unused: the commit detects it if not, and the next try looks it up.
    if (!isSuspect && !hasTurn(actors.machineState(sessionId)?.context, turn.messageId)) return undefined;
    const existing = await this.#store.findMessage(sessionId, turn.messageId);
    if (!existing) return undefined;
    return answerAgain(existing, turn);
  }

  /** Load a session of this floor, unless the actors have it. */
  async #load(sessionId: SessionId, actors: FloorActors, state: Activation["state"]): Promise<void> {
    if (actors.has(sessionId)) return;
    const row = await this.#store.loadSession(sessionId);
    if (row?.session.floorId === this.#floorId && !actors.has(sessionId)) loadRow(row, actors, state);
  }

  /** Load the replies of a session's newest turn, for a position in them. */
  async #recallReplies(sessionId: SessionId, actors: FloorActors, ledger: Ledger): Promise<void> {
    const runId = actors.machineState(sessionId)?.context.newest?.runId;
    if (runId === undefined) return;
    const found: Message[] = [];
    let before: MessageId | undefined;
    for (let pages = 0; pages < MAX_REPLY_PAGES; pages += 1) {
      const page = await this.#store.listMessages(sessionId, { before, limit: REPLY_PAGE });
      const messages = page?.messages ?? [];
      found.unshift(...messages.filter((message) => message.runId === runId && isReply(message)));
      const isBeginning = messages.some((message) => message.role === "user" && message.runId === runId);
      before = messages[0]?.id;
      if (isBeginning || !page?.hasMore || before === undefined) return ledger.recallReplies(sessionId, found);
    }
  }

  /** Load finished messages that the last report of a stopping run extends: the actors do not keep their text. */
  async #recallMessages(report: CommandOf<"run.report">, actors: FloorActors, ledger: Ledger): Promise<void> {
    const { sessionId, parts } = report;
    const session = actors.machineState(sessionId)?.context;
    if (!session || !isStopping(session, report)) return;
    const named = new Set(
      parts.flatMap((part) => (part.kind === "append" || part.kind === "close" ? [part.messageId] : [])),
    );
    for (const messageId of named) {
      const message = await this.#store.findMessage(sessionId, messageId);
      if (message && message.status !== "running") ledger.recall(message);
    }
  }
}

/** Add a session to the actors, from its row. */
export function loadRow(row: SessionRow, actors: FloorActors, state: Activation["state"]): void {
  state.seqs.set(row.session.id, row.head);
  actors.load(readSession(row));
}

/** The answer to a turn whose message exists: the same as before, if it is the same message. */
function answerAgain({ sessionId, id, role, content, images, runId }: Message, turn: TurnInput): Reply {
  const isSame = role === "user" && content === turn.content && sameImages(images, turn.images);
  if (!isSame) return { ok: false, code: "idempotency_mismatch" };
  return { ok: true, sessionId, messageId: id, ...(runId !== undefined && { runId }) };
}

/** Whether the message is the session's running or queued turn. */
function hasTurn(session: SessionContext | undefined, id: MessageId): boolean {
  return session?.run?.messageId === id || session?.turns.some(({ messageId }) => messageId === id) === true;
}

function sameImages(stored: readonly { hash: string }[] = [], sent: readonly { hash: string }[] = []): boolean {
  return stored.length === sent.length && stored.every((image, index) => image.hash === sent[index]!.hash);
}
