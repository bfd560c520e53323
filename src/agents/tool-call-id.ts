import { createHash } from "node:crypto";

/**
 * The id of a tool call: `call_` and 22 characters of a SHA-256 hash. The same origin gives the same id, so an attempt
 * that runs the same way again names its calls alike. Providers' own ids are unsuitable, because providers reuse them.
 * @param origin what identifies the call among all calls of the run: at least the run's id and the attempt
 */
export function makeToolCallId(...origin: readonly (string | number)[]): string {
  return `call_${createHash("sha256").update(origin.join("\n")).digest("base64url").slice(0, 22)}`;
}
