import type { JSONRPCMessage } from "@ai-sdk/mcp";

export type RpcId = string | number;

/** The code of an error in the answer itself. */
const INTERNAL_ERROR = -32_603;

/**
 * A server's answer to a request, in the form that the client reads. An answer with neither a result nor an error
 * becomes an error, so that the call does not wait for its timeout.
 */
export function readMcpAnswer(id: RpcId, { result, error }: Readonly<Record<string, unknown>>): JSONRPCMessage {
  if (isRecord(error) && Number.isInteger(error["code"]) && typeof error["message"] === "string") {
    return { jsonrpc: "2.0", id, error: { code: error["code"] as number, message: error["message"] } };
  }
  if (isRecord(result) && error == null) return { jsonrpc: "2.0", id, result };
  return failedAnswer(id, "its answer has neither a result nor an error");
}

/** An error as the answer to a request, in place of what the server sent. */
export function failedAnswer(id: RpcId, message: string): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: INTERNAL_ERROR, message } };
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
