// Rule C26 of docs/inside/correctness.md.
import { type Catalog, findAgent } from "../../config/catalog/catalog.ts";
import { type SessionId, userOf } from "../../protocol/ids.ts";
import type { Command, Envelope } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import type { FloorActors } from "./floor-actors.ts";

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

/**
 * Critical agents take precedence over all others, so only operators may create their sessions or switch a session to
 * one. The floor's node checks it, because it uses the same catalogue as the floor.
 */
export function refuseCritical(
  { actsFor, command }: Envelope,
  catalog: Catalog,
  actors: FloorActors,
): Reply | undefined {
  if (actsFor === undefined) return undefined;
  const wanted = agentWanted(command, catalog, actors);
  if (!wanted || !findAgent(catalog, wanted.name, wanted.workspaceId)?.critical) return undefined;
  return { ok: false, code: "forbidden", message: "Only operators may start sessions of a critical agent." };
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
