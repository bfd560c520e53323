import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { CommandId, IfSeq, SessionId } from "../../protocol/ids.ts";
import type { Command } from "../../protocol/internal/command.ts";
import type { Accepted } from "../../protocol/internal/reply.ts";
import type { Identity } from "../idempotent-commands.ts";
import type { CommandContext } from "../route-context.ts";

/** The session that a path names. */
export const SessionParams = z.object({ id: SessionId });

/** The fields that every command to an existing session takes. */
export const commandFields = {
  commandId: CommandId.optional(),
  ifSeq: IfSeq.optional().meta({ description: "the newest `seq` seen: with a newer event nothing changes, `stale`" }),
};

/** The body of a command to a floor that has no fields of its own. */
export const KeyedBody = z.strictObject({ commandId: CommandId.optional() }).default({});

/** The same of a command to a session. */
export const CommandBody = z.strictObject(commandFields).default({});

/**
 * Send a command to the existing session that a request names. A repeat of the request has no second effect.
 * @param makeCommand gets the session's id as it is stored, which differs from `id` if owners choose their own ids
 * @returns the identity of the request, and the floor's reply
 * @throws AppError for a refusal; `session_not_found` also for a session that the caller may not see
 */
export async function commandSession(
  { callerOf, commands, visibleTo }: CommandContext,
  request: FastifyRequest,
  id: SessionId,
  makeCommand: (sessionId: SessionId) => Command,
): Promise<{ identity: Identity; reply: Accepted }> {
  const caller = callerOf(request);
  const body = request.body as z.infer<typeof CommandBody>;
  const identity = await commands.identify(caller, request, body);
  const reply = await commands.carryOut(identity, async () => {
    const { sessionId, floorId } = await visibleTo(caller).locate(id);
    return { floorId, command: makeCommand(sessionId), ifSeq: body.ifSeq };
  });
  return { identity, reply };
}
