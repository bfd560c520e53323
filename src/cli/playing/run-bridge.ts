import { homedir } from "node:os";
import { join } from "node:path";
import { delay } from "../../client/delay.ts";
import type { ClientError, ClientOptions } from "../../client/interlock-client.ts";
import type { YamlReading } from "../../config/yaml-file.ts";
import { TOKEN_NOTE } from "../command-line.ts";
import { tokenHeaders } from "../node-client.ts";
import { paintFor } from "../paint.ts";
import { complain, type Output, printLines } from "../printed-lines.ts";
import { PlayerLanes } from "./lanes.ts";

/** How long a write is sent again while the node is away, in ms: leases end what lasts longer. */
const PATIENCE_MS = 10_000;
/**
 * The longest delay before a further attempt, in ms: music beneath a call is to be silent soon after the node is back.
 */
const MAX_DELAY_MS = 1_000;

export interface BridgeRun {
  url: string;
  out: Output;
  err: Output;
  signal: AbortSignal;
}

interface BridgeParts<F> {
  file: F;
  /** Of its client. */
  options: ClientOptions;
  lanes: PlayerLanes;
  /** Why the node does not take requests, as a sentence. */
  explain: (error: ClientError) => string;
  signal: AbortSignal;
}

/**
 * Run a bridge by its file.
 * @param bridge resolves when a signal has stopped it. @throws Error with a sentence for any other end
 * @returns the exit code
 */
export async function runBridge<F>(
  { url, out, err, signal }: BridgeRun,
  reading: YamlReading<F>,
  bridge: (parts: BridgeParts<F>) => Promise<void>,
): Promise<number> {
  const { env } = process;
  const options: ClientOptions = {
    baseUrl: url,
    patienceMs: PATIENCE_MS,
    delay: (ms, signal) => delay(Math.min(ms, MAX_DELAY_MS), signal),
    headers: tokenHeaders(env),
  };
  const lanes = new PlayerLanes((line) => printLines(out, [line]), paintFor(out, env));
  const explain = ({ code, message }: ClientError) => (code === "unauthorized" ? `${message} ${TOKEN_NOTE}` : message);
  try {
    if (!reading.ok) throw new Error(reading.faults.join("\n"));
    await bridge({ file: reading.file, options, lanes, explain, signal });
    return 0;
  } catch (error) {
    complain(err, ...(error as Error).message.split("\n"));
    return 1;
  }
}

/** The file in which a bridge keeps what it has changed. */
export const keptPathOf = (name: string): string =>
  join(process.env["XDG_STATE_HOME"] || join(homedir(), ".local/state"), "interlock", name);
