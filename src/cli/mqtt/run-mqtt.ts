import { homedir } from "node:os";
import { join } from "node:path";
import { delay } from "../../client/delay.ts";
import { type ClientError, type ClientOptions, createClient } from "../../client/interlock-client.ts";
import { TOKEN_NOTE } from "../command-line.ts";
import { tokenHeaders } from "../node-client.ts";
import { paintFor } from "../paint.ts";
import { PlayerLanes } from "../playing/lanes.ts";
import { complain, type Output, printLines } from "../printed-lines.ts";
import { bridgeBroker, linkTo } from "./bridge.ts";
import { expiringWrites } from "./expiring-writes.ts";
import { KeptDevices } from "./kept-devices.ts";
import { readMqttFile } from "./mqtt-file.ts";

/** How long a write is sent again while the node is away, in ms: leases end what lasts longer. */
const PATIENCE_MS = 10_000;
/** The longest delay before a further attempt, in ms. */
const MAX_DELAY_MS = 1_000;

export interface MqttRun {
  url: string;
  out: Output;
  err: Output;
  signal: AbortSignal;
}

/** `interlock mqtt`. @returns the exit code */
export async function mqtt(path: string, { url, out, err, signal }: MqttRun): Promise<number> {
  const { env } = process;
  const fail = (why: string): number => {
    complain(err, ...why.split("\n"));
    return 1;
  };
  const reading = await readMqttFile(path);
  if (!reading.ok) return fail(reading.faults.join("\n"));
  const { file } = reading;
  const options: ClientOptions = {
    baseUrl: url,
    patienceMs: PATIENCE_MS,
    delay: (ms, signal) => delay(Math.min(ms, MAX_DELAY_MS), signal),
    headers: tokenHeaders(env),
  };
  const client = createClient(options);
  const writesUntil = (expiry: AbortSignal) => expiringWrites(options, expiry);
  const lanes = new PlayerLanes((line) => printLines(out, [line]), paintFor(out, env));
  lanes.say(`${path}: the bridge ${file.name} of ${file.broker.url} and ${url}`);
  const state = env["XDG_STATE_HOME"] || join(homedir(), ".local/state");
  const kept = new KeptDevices(join(state, "interlock", `mqtt-${file.name}.json`));
  const explain = ({ code, message }: ClientError) => (code === "unauthorized" ? `${message} ${TOKEN_NOTE}` : message);
  try {
    const openLink = linkTo(file, path);
    const end = await bridgeBroker({ client, writesUntil, file, kept, lanes, explain, signal, openLink });
    return end === "stopped" ? 0 : fail(`another bridge with the name ${file.name} has taken over`);
  } catch (error) {
    return fail((error as Error).message);
  }
}
