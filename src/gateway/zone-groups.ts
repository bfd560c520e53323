// Rule C3 of docs/inside/correctness.md.
import type { Decision } from "../protocol/decision.ts";
import { AppError } from "../protocol/errors.ts";
import { EVERY_ZONE, floorOf, type SessionId, zoneOf } from "../protocol/ids.ts";
import type { WantedSession } from "../protocol/internal/command.ts";
import type { Accepted } from "../protocol/internal/reply.ts";
import type { Group, Session } from "../protocol/session.ts";
import type { ZoneAnswer } from "../protocol/zone-answer.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { BlobStore } from "../store/store.ts";
import { chatCommand, checkUserZone, newTarget } from "./chat-commands.ts";
import { type Identity, isRefusal, type Write } from "./idempotent-commands.ts";
import type { CommandContext } from "./route-context.ts";

/** The maximum number of floors that one request asks on. */
const MAX_FLOORS = 32;

/** A request for all open floors of a user. */
interface ZonesRequest {
  wanted: Omit<WantedSession, "sessionId" | "ownerId" | "zone" | "group"> & { userId: string };
  /** What each session is told; undefined: each requests the floor without a message. */
  content?: string | undefined;
}

type Context = CommandContext & { store: BlobStore; clock: Clock };
type Outcome = { reply: Accepted } | { refusal: AppError };

/**
 * Ask for each open floor of a user, with a session for each. The first floor's command has the key of the request; the
 * group is stored with its commit, so that a repeat asks on the same floors, and completes what a lost node left.
 * @throws AppError the first floor's refusal if every floor refuses; its facts have `zones`
 */
export async function askInAllZones(context: Context, identity: Identity, { wanted, content }: ZonesRequest) {
  const { commands, visibleTo } = context;
  const { caller } = identity;
  const { userId } = wanted;
  const floorIdOf = ({ sessionId, zone }: Group["sessions"][number]) => floorOf(sessionId, userId, zone);

  const newGroup = async (): Promise<Group> => {
    checkUserZone(caller, { userId });
    const open = await visibleTo(caller).floorsOfUser(userId, MAX_FLOORS + 1);
    const floors = open.filter((floorId) => zoneOf(floorId) !== EVERY_ZONE);
    if (floors.length === 0) throw new AppError("not_found", `${userId} has no open floor: nothing has asked on one.`);
    if (floors.length > MAX_FLOORS) throw new AppError("bad_request", `${userId} has more than ${MAX_FLOORS} floors.`);
    const sessions = floors.map((floorId) => ({
      sessionId: commands.deriveId<SessionId>(identity, `session on ${floorId}`),
      zone: zoneOf(floorId),
    }));
    return { id: commands.deriveId(identity, "group"), sessions };
  };
  const write = async (group: Group, member: Group["sessions"][number], own: Identity): Promise<Write> => {
    const { sessionId, zone } = member;
    const target = newTarget(caller, sessionId, { ...wanted, zone, group });
    const { floorId, creates: session } = target;
    if (content !== undefined) return { floorId, command: await chatCommand(context, { content }, target, own) };
    return { floorId, command: { type: "session.create", sessionId, session, activate: true } };
  };

  const planned: { group?: Group } = {};
  const first = await outcomeOf(
    commands.carryOut(identity, async () => {
      planned.group = await newGroup();
      return write(planned.group, planned.group.sessions[0]!, identity);
    }),
  );
  const group = await groupOf(first);
  const rest = await Promise.allSettled(
    group.sessions.slice(1).map((member) => {
      const own = identityFor(`ask on ${floorIdOf(member)}`);
      return outcomeOf(commands.carryOut(own, () => write(group, member, own)));
    }),
  );
  const outcomes = [first, ...rest.map(settled)];
  const zones = outcomes.map((outcome, index) => zoneAnswer(group.sessions[index]!, outcome));
  const accepted = outcomes.find((outcome) => "reply" in outcome);
  if (!accepted) {
    const { code, message, facts } = (first as { refusal: AppError }).refusal;
    const { group: _, ...known } = facts;
    throw new AppError(code, message, { facts: { ...known, zones } });
  }
  const { reply } = accepted;
  const session = reply.session ?? (await viewOf(reply.sessionId!));
  const { decision } = reply;
  return { success: true as const, session, ...(decision && { decision }), ...commands.positionOf(reply), zones };

  function identityFor(what: string): Identity {
    return { ...identity, commandId: commands.deriveId<SessionId>(identity, what) };
  }
  async function viewOf(sessionId: SessionId): Promise<Session> {
    return (await visibleTo(caller).view(sessionId, 0)).session;
  }
  /**
   * The group that the first floor's answer tells: an equal request, at another node or before, may have found other
   * floors open, and have been first.
   * @throws AppError if another request has its key
   */
  async function groupOf(outcome: Outcome): Promise<Group> {
    if ("refusal" in outcome) {
      const { code, facts } = outcome.refusal;
      if (code === "idempotency_mismatch") throw outcome.refusal;
      return (facts as { group?: Group }).group ?? planned.group ?? (await newGroup());
    }
    const { session, sessionId } = outcome.reply;
    const { group } = session ?? (await viewOf(sessionId!));
    if (!group) throw new AppError("idempotency_mismatch");
    return group;
  }
  /** The request is to be repeated with its own key. */
  function settled(result: PromiseSettledResult<Outcome>): Outcome {
    if (result.status === "fulfilled") return result.value;
    const { reason } = result;
    if (!(reason instanceof AppError)) throw reason;
    const { code, message, facts } = reason;
    throw new AppError(code, message, { facts: { ...facts, commandId: identity.commandId }, cause: reason });
  }
  function zoneAnswer(member: Group["sessions"][number], outcome: Outcome): ZoneAnswer {
    const { zone, sessionId } = member;
    const where = { ...(zone !== undefined && { zone }), floorId: floorIdOf(member) };
    if ("reply" in outcome) {
      const { decision } = outcome.reply;
      return { ...where, sessionId, ...(decision && { decision }) };
    }
    const { code: errorCode, message: error, facts } = outcome.refusal;
    const { decision } = facts as { decision?: Decision };
    return { ...where, errorCode, error, ...(decision && { decision }) };
  }
}

async function outcomeOf(work: Promise<Accepted>): Promise<Outcome> {
  try {
    return { reply: await work };
  } catch (error) {
    if (error instanceof AppError && isRefusal(error)) return { refusal: error };
    throw error;
  }
}

/**
 * Stop the sessions of a session's group, also where they have moved to. Sessions that are gone are left out, so a
 * repeat stops those that are left.
 */
export async function stopGroup(
  { commands, visibleTo }: Pick<CommandContext, "commands" | "visibleTo">,
  identity: Identity,
  named: Pick<Session, "id" | "group">,
): Promise<void> {
  const sessions = visibleTo(identity.caller);
  const others = (named.group?.sessions ?? []).filter(({ sessionId }) => sessionId !== named.id);
  await Promise.all(
    others.map(async ({ sessionId: member }) => {
      const session = await sessions.current(member);
      if (!session) return;
      const { id: sessionId, floorId } = session;
      const own = { ...identity, commandId: commands.deriveId<SessionId>(identity, `stop ${sessionId}`) };
      const stopped = commands.carryOut(own, async () => ({ floorId, command: { type: "session.stop", sessionId } }));
      const outcome = await outcomeOf(stopped);
      if ("refusal" in outcome && outcome.refusal.code !== "session_not_found") throw outcome.refusal;
    }),
  );
}
