import { type Catalog, listAgents } from "../../config/catalog/catalog.ts";
import type { FailedMessage } from "../../gateway/routes/messages.ts";
import { findAgentIdFault } from "../../protocol/client-message.ts";
import { AppError, type ErrorCode } from "../../protocol/errors.ts";

/** Failures of `switch_agent` that are found before its session is asked. They are outcomes too. */
const OUTCOMES: ReadonlySet<ErrorCode> = new Set(["invalid_agent_id", "invalid_agent_id_format", "session_not_found"]);

/** Answers a failed `switch_agent` as the service before this one did: with success, and the error as its outcome. */
export const switchOutcomes =
  (catalog: () => Catalog): FailedMessage =>
  (message, thrown) => {
    if (message.type !== "switch_agent") return { error: thrown };
    // A fault in the agent's id takes precedence over a missing session.
    const fault = thrown.code === "session_not_found" ? findAgentIdFault(message.agentId) : undefined;
    const error = fault ? new AppError(fault) : thrown;
    if (!OUTCOMES.has(error.code)) return { error };
    const { code: errorCode, message: text } = error;
    return { error, outcome: { errorCode, message: text, availableAgents: listAgents(catalog()) } };
  };
