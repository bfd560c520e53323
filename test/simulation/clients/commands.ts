import type { SessionContext } from "../../../src/actors/session/session-context.ts";
import type { AgentId, FloorId, MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { Command, WantedSession } from "../../../src/protocol/internal/command.ts";
import { AGENTS, RESTRICTING } from "../services/catalogue.ts";
import type { World } from "../world.ts";

/** A command, and the event that shows that it was executed. */
export interface PlannedCommand {
  command: Command;
  /** Counted by the watch: once if it was accepted, never if it was refused. */
  mark?: string | undefined;
  /** The session that must exist for the mark to be visible. */
  sessionId?: SessionId | undefined;
}

/** Characters of a heavy message. */
const HEAVY_LEAST = 100_000;
const HEAVY_MORE = 150_000;

const VERBS = ["activate", "activate", "resume", "resume", "pause", "archive", "stop", "abort", "delete"] as const;

/** A client's next command, mostly a useful one. Ids are derived from the command's id. */
export function drawCommand(world: World, floorId: FloorId, commandId: string): PlannedCommand {
  const { chance, memory, theme } = world;
  const sessions = memory.sessionsOf(floorId);
  const living = sessions.filter(({ state }) => state !== "archived");
  if (living.length === 0 || (living.length < 4 && chance.percent(20))) return create(world, floorId, commandId);
  const { id } = chance.percent(95) ? chance.pick(living) : chance.pick(sessions);
  return KINDS[chance.pick(theme.commandKinds)](world, floorId, commandId, id);
}

function create(world: World, floorId: FloorId, commandId: string): PlannedCommand {
  const { chance } = world;
  const session = newSession(world, floorId, commandId);
  const { sessionId } = session;
  const mark = `created ${sessionId}`;
  if (chance.percent(30)) {
    return { command: { type: "session.chat", sessionId, turn: turnOf(world, commandId), session }, mark, sessionId };
  }
  return { command: { type: "session.create", sessionId, session, activate: chance.percent(70) }, mark, sessionId };
}

/** The user and the zone are the floor's. */
function newSession(world: World, floorId: FloorId, commandId: string): WantedSession {
  const [userId, zone] = floorId.slice(2).split("/");
  const agentId = world.chance.pick(AGENTS) as AgentId;
  return { sessionId: `s-${commandId}` as SessionId, agentId, userId: userId!, ...(zone !== undefined && { zone }) };
}

/** Sometimes longer than the bus sends in one piece. */
const turnOf = ({ chance }: World, commandId: string) => ({
  messageId: `m-${commandId}` as MessageId,
  runId: `r-${commandId}` as RunId,
  content: `words of ${commandId} `.repeat(chance.percent(0.5) ? 4_500 : 1),
});

function chat(world: World, _: FloorId, commandId: string, sessionId: SessionId): PlannedCommand {
  const turn = turnOf(world, commandId);
  return { command: { type: "session.chat", sessionId, turn }, mark: `message ${turn.messageId}`, sessionId };
}

/** A turn larger than a page of a log, or nearly: a history has room for a few of them. */
function heavy(world: World, floorId: FloorId, commandId: string, sessionId: SessionId): PlannedCommand {
  const { chance } = world;
  if (!world.takeHeavy()) return chat(world, floorId, commandId, sessionId);
  const words = `words of ${commandId} `;
  const content = words.repeat(Math.floor((HEAVY_LEAST + chance.below(HEAVY_MORE)) / words.length));
  const turn = { ...turnOf(world, commandId), content };
  return { command: { type: "session.chat", sessionId, turn }, mark: `message ${turn.messageId}`, sessionId };
}

function verb({ chance }: World, _: FloorId, __: string, sessionId: SessionId): PlannedCommand {
  return { command: { type: `session.${chance.pick(VERBS)}`, sessionId } };
}

export function rename(_: World, __: FloorId, commandId: string, sessionId: SessionId): PlannedCommand {
  const title = `title ${commandId}`;
  return { command: { type: "session.update", sessionId, settings: { title } }, mark: `title ${title}`, sessionId };
}

function ofFloor({ chance }: World, _: FloorId, commandId: string): PlannedCommand {
  const what = chance.below(9);
  if (what === 0) return { command: { type: "floor.stop" } };
  if (what === 1) return { command: { type: "floor.stop_all" } };
  if (what === 2 || what === 3) {
    return { command: { type: "floor.patch_flags", flags: { [chance.pick(RESTRICTING)]: chance.percent(60) } } };
  }
  if (what === 4) {
    const name = `patch-${commandId}`;
    return { command: { type: "floor.patch_flags", flags: { [name]: true } }, mark: `patched ${name}` };
  }
  return flag(commandId);
}

/** It changes nothing, so a node with an outdated state would not notice. */
function look({ chance }: World): PlannedCommand {
  return { command: { type: "floor.what_if", agentId: chance.pick(AGENTS) } };
}

export function flag(commandId: string): PlannedCommand {
  const flags = { [`flag-${commandId}`]: true };
  return { command: { type: "floor.flags", flags }, mark: `flags ${JSON.stringify({ flags })}` };
}

/** An answer to a question, a change of agents, or a rollback. */
function other(world: World, floorId: FloorId, commandId: string, sessionId: SessionId): PlannedCommand {
  const { chance, memory } = world;
  const { run } = JSON.parse(memory.rowOf(sessionId)!.memory) as Pick<SessionContext, "run">;
  const asked = run?.interactions[0]?.interaction.requestId;
  if (asked !== undefined) {
    const answer = { kind: "question" as const, requestId: asked, selected: ["yes"] };
    return { command: { type: "session.answer", sessionId, requestId: asked, answer } };
  }
  const queued = memory.messagesOf(sessionId).find(({ status }) => status === "queued");
  if (queued) return { command: { type: "session.withdraw", sessionId, messageId: queued.id } };
  if (chance.percent(50)) {
    return { command: { type: "session.switch_agent", sessionId, agentId: chance.pick(AGENTS) } };
  }
  return chat(world, floorId, commandId, sessionId);
}

const KINDS = { chat, heavy, verb, rename, ofFloor, look, other };
export type Kind = keyof typeof KINDS;
