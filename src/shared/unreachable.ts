/** A server that this node needs does not answer, or is starting. It may answer later. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

const NETWORK_CODES = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETUNREACH",
  // The name of a server that is starting, among containers.
  "ENOTFOUND",
  // The server's Unix socket.
  "ENOENT",
  "EPIPE",
  "ETIMEDOUT",
]);

/** Whether a connection failed because nothing answered, and not for what was answered. */
export function isNetworkError(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isNetworkError);
  return error instanceof Error && NETWORK_CODES.has(String((error as { code?: unknown }).code));
}
