import { type Client, createClient } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import { readBounded, whyUnreadable } from "../config/bounded-file.ts";
import type { Language } from "./language.ts";

/** The largest token, in bytes: what a node takes as a header. */
const MAX_TOKEN_BYTES = 8_192;

type Env = Readonly<Record<string, string | undefined>>;

/** The error codes for a caller that is known, and may not act for other users or operators. */
const NOT_ALLOWED: ReadonlySet<string> = new Set(["forbidden", "not_found"]);

const ABSENT: ReadonlySet<string> = new Set(["session_not_found", "not_found"]);

/**
 * A client of the node at an address, with the token or key that the environment names, if it names one.
 * @param language of the sentences that the node says for this client. Default: the node's choice
 */
export function clientOf(baseUrl: string, env: Env, language?: Language): Client {
  const headers = async () => ({
    ...(await tokenHeaders(env)()),
    ...(language && { "Accept-Language": language }),
  });
  return createClient({ baseUrl, headers });
}

interface Failed {
  baseUrl: string;
  env: Env;
  /** What the command needs of `INTERLOCK_TOKEN`. Default: an operator's. */
  needed?: string;
  /** The sentence if what was asked for does not exist. */
  absent?: string | undefined;
}

/**
 * The headers that present the token or key of a command: `INTERLOCK_TOKEN`, or the file that `INTERLOCK_TOKEN_FILE`
 * names. The file is read for each request, because a token may expire while the command runs.
 */
export const tokenHeaders = (env: Env) => async (): Promise<Record<string, string>> => {
  const { INTERLOCK_TOKEN: token, INTERLOCK_TOKEN_FILE: path } = env;
  const presented = token || (path && (await readToken(path)));
  return presented ? { Authorization: `Bearer ${presented}` } : {};
};

async function readToken(path: string): Promise<string> {
  try {
    const bytes = await readBounded(path, MAX_TOKEN_BYTES);
    return bytes.subarray(0, MAX_TOKEN_BYTES).toString("latin1").trim();
  } catch (error) {
    const why = `INTERLOCK_TOKEN_FILE: ${path}: ${whyUnreadable(error)}`;
    throw new ClientError("unauthorized", why, { status: 0, retryable: false, cause: error });
  }
}

/**
 * Why a command of the client failed, as a sentence.
 * @throws the error itself if it is a fault of this program
 */
export function explainFailure(
  error: unknown,
  { baseUrl, env, needed = "an operator's token or key", absent }: Failed,
): string {
  if (!(error instanceof ClientError)) throw error;
  if (error.code === "unreachable") {
    return `No Interlock node answers at ${baseUrl}. Start one with \`interlock serve\`, or name another.`;
  }
  if (error.code === "unexpected_answer") return `The server at ${baseUrl} is not Interlock. ${error.message}`;
  if (absent !== undefined && ABSENT.has(error.code)) return absent;
  const hasToken = Boolean(env["INTERLOCK_TOKEN"]);
  if (error.code === "unauthorized") {
    return hasToken
      ? `The node at ${baseUrl} does not know the token or key in INTERLOCK_TOKEN: it is wrong, has expired or was withdrawn. Needed is ${needed}.`
      : `The node at ${baseUrl} requires authentication: set INTERLOCK_TOKEN to ${needed}.`;
  }
  if (hasToken && NOT_ALLOWED.has(error.code)) {
    return `The token or key in INTERLOCK_TOKEN is another user's: the node at ${baseUrl} knows it, and requires ${needed} for this.`;
  }
  const { issues = [] } = error.facts;
  const named = issues.map(({ path, message }) => `${path.replace(/^(?:body|querystring|params)\./, "")}: ${message}`);
  return `The server refused with ${error.code}: ${named.length > 0 ? named.join("; ") : error.message}`;
}
