// Rules C20, C26 and C33 of docs/inside/correctness.md.
/** What is loaded and checked for a command before the machines are asked. */

import { type Catalog, findAgent } from "../../config/catalog/catalog.ts";
import { isReply } from "../../protocol/heard.ts";
import { type MessageId, type SessionId, userOf } from "../../protocol/ids.ts";
import {
  type Command,
  type CommandOf,
  type Envelope,
  sessionCreatedBy,
  type TurnInput,
} from "../../protocol/internal/command.ts";
import { previewOf, type Reply } from "../../protocol/internal/reply.ts";
import type { Message } from "../../protocol/message.ts";
import { flow } from "../../shared/flow.ts";
import type { FloorStore, LogStore, MessageStore } from "../../store/store.ts";
import type { SessionContext } from "../session/session-context.ts";
import { isStopping } from "../session/worker-commands.ts";
import type { FloorActors } from "./floor-actors.ts";
import type { Ledger } from "./ledger.ts";
import { type Activation, loadRow } from "./snapshot.ts";

/** A command of a batch. */
export interface BatchedCommand {
  readonly envelope: Envelope;
  /** Set after a commit conflict: the next try looks up whether the command's new ids are in use. */
  isSuspect: boolean;
}

/** Messages that are read at once to find the replies of a turn: most turns have one or two. */
const REPLY_PAGE = 16;
/** What was spoken of a turn with more messages than these pages have counts nothing. */
const MAX_REPLY_PAGES = 64;

/** The rows that commands name. */
export type NamedRows = FloorStore & MessageStore & LogStore;

/** Replies to commands that the loaded rows alone decide: the actors are not asked. */
export type LoadedReplies = ReadonlyMap<BatchedCommand, Reply>;

/**
 * Load the rows that the commands of a batch name beside those of the floor's snapshot.
 * @returns replies to the commands that the loaded rows alone decide; undefined if there are no rows to load
 */
export function loadNamed(
  commands: readonly BatchedCommand[],
  activation: Activation,
  ledger: Ledger,
  store: NamedRows,
): Promise<LoadedReplies> | undefined {
  const naming = commands.filter(({ envelope }) => namesRows(envelope, activation));
  return naming.length > 0 ? loadAll(naming, activation, ledger, store) : undefined;
}

/** Whether there are rows to load for the command. */
function namesRows({ command }: Envelope, { actors }: Activation): boolean {
  const { type } = command;
  if (type === "session.chat" || type === "session.played" || type === "session.copy" || type === "session.move")
    return true;
  if (command.type === "run.report" && actors.machineState(command.sessionId)?.context.stopping) return true;
  return "sessionId" in command && command.sessionId !== undefined && !actors.has(command.sessionId);
}

async function loadAll(
  commands: readonly BatchedCommand[],
  activation: Activation,
  ledger: Ledger,
  store: NamedRows,
): Promise<LoadedReplies> {
  flow.onHop?.("rows", `those that ${commands.map(({ envelope }) => envelope.command.type).join(", ")} needs`);
  const decided = new Map<BatchedCommand, Reply>();
  const replies = new Map<SessionId, Promise<void>>();
  // Wait for all of them, even if one fails: a late one would load a session into actors that were dropped.
  const loaded = await Promise.allSettled(
    commands.map(async (pending) => {
      const reply = await loadOne(pending, activation, ledger, store, replies);
      if (reply) decided.set(pending, reply);
    }),
  );
  for (const each of loaded) if (each.status === "rejected") throw each.reason;
  return decided;
}

// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a further async step would delay each command that loads rows
async function loadOne(
  { envelope: { command, floorId }, isSuspect }: BatchedCommand,
  { actors, state }: Activation,
  ledger: Ledger,
  store: NamedRows,
  replies: Map<SessionId, Promise<void>>,
): Promise<Reply | undefined> {
  const sessionId = "sessionId" in command ? command.sessionId : undefined;
  if (sessionId === undefined) return undefined;
  const creates = sessionCreatedBy(command) !== undefined;
  if (command.type === "session.copy" && command.replaces !== undefined && !actors.has(command.replaces)) {
    const row = await store.loadSession(command.replaces);
    if (row?.session.floorId === floorId && !actors.has(command.replaces)) loadRow(row, actors, state);
  }
  if (!actors.has(sessionId)) {
    // Most new ids are unused, and the commit detects the others.
    if (creates && !isSuspect) ledger.expectNew(sessionId);
    const where = creates && isSuspect ? await store.whereIs(sessionId) : undefined;
    // Rule C20: a deleted session's id stays reserved while followers may still read up to the deletion.
    if (where?.tombstone) return { ok: false, code: "idempotency_mismatch" };
    const row = creates && !where ? undefined : await store.loadSession(sessionId);
    if (row && row.session.floorId !== floorId) {
      return { ok: false, code: creates ? "idempotency_mismatch" : "session_not_found" };
    }
    // Another command of this batch may have loaded the session meanwhile.
    if (row && !actors.has(sessionId)) loadRow(row, actors, state);
  }
  if (command.type === "run.report") await recallMessages(command, actors, ledger, store);
  if (saysPlayed(command)) {
    // Once for a burst of them.
    const recalled = replies.get(sessionId) ?? recallReplies(sessionId, actors, ledger, store);
    replies.set(sessionId, recalled);
    await recalled;
    if (command.type === "session.played" && !ledger.find(sessionId, command.messageId)) {
      const message = await store.findMessage(sessionId, command.messageId);
      if (message) ledger.recall(message);
    }
  }
  if (command.type !== "session.chat") return undefined;
  const { turn } = command;
  // Another message's id is assumed to be unused: the commit detects it if not, and the next try looks it up.
  if (!isSuspect && !hasTurn(actors.machineState(sessionId)?.context, turn.messageId)) return undefined;
  const existing = await store.findMessage(sessionId, turn.messageId);
  if (!existing) return undefined;
  return answerAgain(existing, turn);
}

/** Load the replies of a session's newest turn, for how far they were spoken. */
async function recallReplies(
  sessionId: SessionId,
  actors: FloorActors,
  ledger: Ledger,
  store: NamedRows,
): Promise<void> {
  const runId = actors.machineState(sessionId)?.context.newest?.runId;
  if (runId === undefined) return;
  const found: Message[] = [];
  let before: MessageId | undefined;
  for (let pages = 0; pages < MAX_REPLY_PAGES; pages += 1) {
    const page = await store.listMessages(sessionId, { before, limit: REPLY_PAGE });
    const messages = page?.messages ?? [];
    found.unshift(...messages.filter((message) => message.runId === runId && isReply(message)));
    const isBeginning = messages.some((message) => message.role === "user" && message.runId === runId);
    before = messages[0]?.id;
    if (isBeginning || !page?.hasMore || before === undefined) return ledger.recallReplies(sessionId, found);
  }
}

/** Load finished messages that the last report of a stopping run extends: the actors do not keep their text. */
async function recallMessages(
  report: CommandOf<"run.report">,
  actors: FloorActors,
  ledger: Ledger,
  store: NamedRows,
): Promise<void> {
  const { sessionId, parts } = report;
  const session = actors.machineState(sessionId)?.context;
  if (!session || !isStopping(session, report)) return;
  const named = new Set(
    parts.flatMap((part) => (part.kind === "append" || part.kind === "close" ? [part.messageId] : [])),
  );
  for (const messageId of named) {
    const message = await store.findMessage(sessionId, messageId);
    if (message && message.status !== "running") ledger.recall(message);
  }
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

/** What a command is checked against before the machines are asked. */
export interface Admission {
  actors: FloorActors;
  catalog: Catalog;
  /** The replies of `loadNamed`. */
  decided: LoadedReplies | undefined;
}

/** The reply to a command that the machines are not asked about; undefined: it may act. */
export function replyBefore(pending: BatchedCommand, { actors, catalog, decided }: Admission) {
  const { envelope } = pending;
  return refuseForeign(envelope, actors) ?? refuseCritical(envelope, catalog, actors) ?? decided?.get(pending);
}

/**
 * Refuse a command that acts on another user's session (rule C26). The floor's owner node checks it, where the session
 * is, rather than the node that sent the command.
 */
export function refuseForeign({ actsFor, command, floorId }: Envelope, actors: FloorActors): Reply | undefined {
  if (actsFor === undefined) return undefined;
  const isForeign = (id: SessionId) => {
    const session = actors.machineState(id)?.context;
    return session !== undefined && session.ownerId !== actsFor;
  };
  if ("sessionId" in command) {
    const named = [command.sessionId, command.type === "session.copy" ? command.replaces : undefined];
    const hasForeign = named.some((sessionId) => sessionId !== undefined && isForeign(sessionId));
    return hasForeign ? { ok: false, code: "session_not_found" } : undefined;
  }
  // The name of a user's floor contains the user; only a session's own floor can belong to another user.
  const isAlone = userOf(floorId) === undefined;
  return isAlone && actors.sessionIds.some(isForeign) ? { ok: false, code: "not_found" } : undefined;
}

const FOR_OPERATORS = {
  ok: false,
  code: "forbidden",
  message: "Only operators may start sessions of a critical agent.",
} as const satisfies Reply;

/**
 * Critical agents take precedence over all others, so only operators may create their sessions or switch a session to
 * one. The floor's node checks it, because it uses the same catalogue as the floor.
 */
function refuseCritical({ actsFor, command }: Envelope, catalog: Catalog, actors: FloorActors): Reply | undefined {
  if (actsFor === undefined) return undefined;
  if (command.type === "floor.what_if") {
    const isCritical = command.sessionId === undefined && catalog.agents.get(command.agentId)?.critical;
    return isCritical ? previewOf(FOR_OPERATORS) : undefined;
  }
  const wanted = agentWanted(command, catalog, actors);
  if (!wanted || !findAgent(catalog, wanted.name, wanted.workspaceId)?.critical) return undefined;
  return FOR_OPERATORS;
}

interface WantedAgent {
  name: string;
  workspaceId: string | undefined;
}

/** The agent that the command gives to a new or an existing session. */
function agentWanted(command: Command, { defaultAgentId }: Catalog, actors: FloorActors): WantedAgent | undefined {
  switch (command.type) {
    case "session.switch_agent":
      return {
        name: command.agentId.trim(),
        workspaceId: actors.machineState(command.sessionId)?.context.workspaceId,
      };
    case "session.create":
    case "session.copy":
    case "session.move":
    case "session.chat": {
      if (!command.session || actors.has(command.sessionId)) return undefined;
      const { agentId: name = defaultAgentId, workspaceId } = command.session;
      return { name, workspaceId };
    }
    default:
      return undefined;
  }
}

/** Rule C20: refuse to create a session with the id of one that an earlier command of the batch deleted. */
export function refuseDeletedId({ command }: Envelope, actors: FloorActors): Reply | undefined {
  const id = sessionCreatedBy(command);
  const isDeleted = id !== undefined && actors.machineState(id)?.value.lifecycle === "deleted";
  return isDeleted ? { ok: false, code: "idempotency_mismatch" } : undefined;
}

/** Refuse a command for a session that has events after `ifSeq`, if the command has one. */
export function refuseStale(
  { ifSeq }: Pick<Envelope, "ifSeq">,
  sessionId: SessionId,
  actors: FloorActors,
  ledger: Ledger,
): Reply | undefined {
  if (ifSeq === undefined) return undefined;
  const seq = ledger.seqOf(sessionId);
  const session = actors.machineState(sessionId)?.view;
  return seq === ifSeq ? undefined : { ok: false, code: "stale", facts: { seq, ...(session && { session }) } };
}

/** Whether the command says what was played of a reply. */
const saysPlayed = (command: Command): command is CommandOf<"session.played"> | CommandOf<"session.chat"> =>
  command.type === "session.played" || (command.type === "session.chat" && command.turn.playedUpTo !== undefined);

/** A command, after what it says of a spoken reply has been checked. */
interface CheckedCommand {
  /** Applied before the command: keeps how far the reply was spoken. */
  before?: Command;
  command: Command;
  /** How far the reply counts as spoken then. Absent: the command says nothing of a reply. */
  upTo?: number | undefined;
}

/**
 * Only a later end in the newest turn's reply counts: models have already got the replies before.
 * @returns what to apply, or the answer if the command is not to be applied
 */
export function checkPlayed(
  command: Command,
  session: SessionContext | undefined,
  messages: Pick<Ledger, "find" | "repliesOf">,
): CheckedCommand | { answer: Reply } {
  if (!session || !saysPlayed(command)) return { command };
  const replies = session.newest ? messages.repliesOf(session.id, session.newest.runId) : [];
  return command.type === "session.played"
    ? checkMessage(command, replies, messages.find(session.id, command.messageId))
    : checkTurn(command, replies);
}

/** It counts in one message. Of a message that may grow, or lost its end, as much counts as is stored. */
function checkMessage(
  command: CommandOf<"session.played">,
  replies: readonly Message[],
  message: Message | undefined,
): CheckedCommand | { answer: Reply } {
  const { sessionId, messageId, upTo } = command;
  if (!message || !isReply(message)) {
    return { answer: { ok: false, code: "not_found", message: `The session has no reply ${messageId}.` } };
  }
  const { content, playedUpTo } = message;
  if (upTo > content.length && isWhole(message)) return { answer: tooFar(upTo, content.length) };
  const spoken = { at: replies.findIndex(({ id }) => id === messageId), upTo: Math.min(upTo, content.length) };
  if (isFurther(spoken, furthest(replies))) {
    return { command: { ...command, upTo: spoken.upTo }, upTo: spoken.upTo };
  }
  return { answer: { ok: true, sessionId, messageId, ...(playedUpTo !== undefined && { playedUpTo }) } };
}

/** A turn counts in the text of all messages of the reply before it, as the client got them. */
function checkTurn(
  command: CommandOf<"session.chat">,
  replies: readonly Message[],
): CheckedCommand | { answer: Reply } {
  const said = command.turn.playedUpTo!;
  const starts: number[] = [];
  let total = 0;
  for (const { content } of replies) {
    starts.push(total);
    total += content.length;
  }
  if (starts.length === 0) return { command };
  if (said > total && replies.every(isWhole)) return { answer: tooFar(said, total) };
  const upTo = Math.min(said, total);
  // What begins where the speech ended was not heard.
  const at = starts.findLastIndex((start) => start <= upTo);
  const known = furthest(replies);
  if (!isFurther({ at, upTo: upTo - starts[at]! }, known)) return { command, upTo: starts[known.at]! + known.upTo };
  const { sessionId, id: messageId } = replies[at]!;
  return { before: { type: "session.played", sessionId, messageId, upTo: upTo - starts[at]! }, command, upTo };
}

/** How far a reply was spoken: in its message of this index. */
interface SpokenTo {
  at: number;
  upTo: number;
}

const NOWHERE: SpokenTo = { at: -1, upTo: -1 };

function furthest(replies: readonly Message[]): SpokenTo {
  const at = replies.findLastIndex(({ playedUpTo }) => playedUpTo !== undefined);
  return at < 0 ? NOWHERE : { at, upTo: replies[at]!.playedUpTo! };
}

const isFurther = (one: SpokenTo, other: SpokenTo): boolean =>
  one.at > other.at || (one.at === other.at && one.at >= 0 && one.upTo > other.upTo);

/** A client may have got more of a message that was cut off than is stored. */
const isWhole = ({ status }: Message): boolean => status === "success";

const tooFar = (upTo: number, end: number): Reply => ({
  ok: false,
  code: "bad_request",
  message: `The reply ends at ${end}, before ${upTo}.`,
});
