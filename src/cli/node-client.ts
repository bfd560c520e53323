import { type Client, createClient } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import type { Language } from "./language.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** The error codes for a caller that may not act for other users, whose sessions then appear not to exist. */
const LOCKED_OUT: ReadonlySet<string> = new Set(["unauthorized", "forbidden", "not_found"]);

const ABSENT: ReadonlySet<string> = new Set(["session_not_found", "not_found"]);

/**
 * A client of the node at an address, with the token or key of `INTERLOCK_TOKEN`, if there is one.
 * @param language of the sentences that the node says for this client. Default: the node's choice
 */
export function clientOf(baseUrl: string, env: Env, language?: Language): Client {
  const token = env["INTERLOCK_TOKEN"];
  const headers = {
    ...(token && { Authorization: `Bearer ${token}` }),
    ...(language && { "Accept-Language": language }),
  };
  return createClient({ baseUrl, headers });
}

/**
 * Why a command of the client failed, as a sentence.
 * @param needed what the command needs of `INTERLOCK_TOKEN`
 * @param absent the sentence if what was asked for does not exist
 * @throws the error itself if it is a fault of this program
 */
export function explainFailure(
  error: unknown,
  baseUrl: string,
  needed = "an operator's token or key",
  absent?: string,
): string {
  if (!(error instanceof ClientError)) throw error;
  if (error.code === "unreachable") {
    return `No Interlock node answers at ${baseUrl}. Start one with \`interlock serve\`, or name another.`;
  }
  if (error.code === "unexpected_answer") return `The server at ${baseUrl} is not Interlock. ${error.message}`;
  if (absent !== undefined && ABSENT.has(error.code)) return absent;
  if (LOCKED_OUT.has(error.code)) {
    return `The node at ${baseUrl} requires authentication: set INTERLOCK_TOKEN to ${needed}.`;
  }
  return `The server refused with ${error.code}: ${error.message}`;
}
