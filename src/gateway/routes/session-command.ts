import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { CommandId, SessionId } from "../../protocol/ids.ts";
import type { Command } from "../../protocol/internal/command.ts";
import type { Accepted } from "../../protocol/internal/reply.ts";
import type { CommandContext } from "../route-context.ts";

/** The session that a path names. */
export const SessionParams = z.object({ id: SessionId });

/** The body of a command that has no fields besides its key. */
export const KeyedBody = z.object({ commandId: CommandId.optional() }).default({});

/**
 * Send a command to the existing session that a request names. A repeat of the request has no second effect.
 * @param makeCommand gets the session's id as it is stored, which differs from `id` if owners choose their own ids
 * @throws AppError for a refusal; `session_not_found` also for a session that the caller may not see
 */
export async function commandSession(
  { authenticate, commands, visibleTo }: CommandContext,
  request: FastifyRequest,
  id: SessionId,
  makeCommand: (sessionId: SessionId) => Command,
): Promise<Accepted> {
  const caller = await authenticate(request);
  const identity = await commands.identify(caller, request, request.body as object);
  return await commands.carryOut(identity, async () => {
    const { sessionId, floorId } = await visibleTo(caller).locate(id);
    return { floorId, command: makeCommand(sessionId) };
  });
}
