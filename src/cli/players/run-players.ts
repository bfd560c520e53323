import { existsSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { delay } from "../../client/delay.ts";
import { type ClientError, createClient } from "../../client/interlock-client.ts";
import { readPlayersFile } from "../../config/players-file.ts";
import { TOKEN_NOTE } from "../command-line.ts";
import { tokenHeaders } from "../node-client.ts";
import { paintFor } from "../paint.ts";
import { PlayerLanes } from "../playing/lanes.ts";
import { complain, type Output, printLines } from "../printed-lines.ts";
import { bridgePlayers } from "./players.ts";

/** How long a write is sent again while the node is away, in ms: leases end what lasts longer. */
const PATIENCE_MS = 10_000;
/**
 * The longest delay before a further attempt, in ms: music beneath a call is to be silent soon after the node is back.
 */
const MAX_DELAY_MS = 1_000;

export interface PlayersRun {
  url: string;
  /** Default: the name of the process's user. */
  userId: string | undefined;
  out: Output;
  err: Output;
  signal: AbortSignal;
}

/** `interlock players`. @returns the exit code */
export async function players(file: string | undefined, run: PlayersRun): Promise<number> {
  const { url, out, err, signal } = run;
  const { env } = process;
  const fail = (why: string): number => {
    complain(err, ...why.split("\n"));
    return 1;
  };
  const path = file ?? usualFile(env);
  const reading = await readPlayersFile(path);
  if (!reading.ok) return fail(reading.faults.join("\n"));
  const client = createClient({
    baseUrl: url,
    patienceMs: PATIENCE_MS,
    delay: (ms, signal) => delay(Math.min(ms, MAX_DELAY_MS), signal),
    headers: tokenHeaders(env),
  });
  const userId = run.userId ?? userInfo().username;
  const lanes = new PlayerLanes((line) => printLines(out, [line]), paintFor(out, env));
  lanes.say(`players of ${path}, on the floor of ${userId} at ${url}`);
  const state = env["XDG_STATE_HOME"] || join(homedir(), ".local/state");
  const explain = ({ code, message }: ClientError) => (code === "unauthorized" ? `${message} ${TOKEN_NOTE}` : message);
  const keptPath = join(state, "interlock", "players.json");
  try {
    await bridgePlayers({ client, file: reading.file, userId, keptPath, lanes, explain, signal });
    return 0;
  } catch (error) {
    return fail((error as Error).message);
  }
}

function usualFile(env: NodeJS.ProcessEnv): string {
  const own = join(env["XDG_CONFIG_HOME"] || join(homedir(), ".config"), "interlock", "players.yaml");
  const usual = ["players.yaml", own].find((path) => existsSync(path));
  return usual ?? fileURLToPath(new URL("../../../config/players.yaml", import.meta.url));
}
