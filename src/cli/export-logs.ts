import { open } from "node:fs/promises";
import type { Client } from "../client/client.ts";
import { SAVED_LOG } from "../client/saved-log.ts";
import type { LoggedServerEvent } from "../client/server-event.ts";
import { withoutWords } from "../policy/replay/needed-events.ts";
import { visibleJson } from "../shared/text.ts";
import { clientOf, explainFailure } from "./node-client.ts";
import { complain, counted, type Output, printLines } from "./printed-lines.ts";
import { MAX_LOG_EVENTS } from "./saved-logs.ts";

export interface ExportLogsOptions {
  url: string;
  /** How old the oldest event may be, in ms. Absent: all that is kept. */
  sinceMs?: number | undefined;
  /** Only this floor. */
  floor?: string | undefined;
}

const PAGE = 2_000;
const FLOORS = 1_000;
const SECRET_MODE = 0o600;

type Terminal = Pick<NodeJS.Process, "stdout" | "stderr" | "env">;

/**
 * `interlock export --logs`: write the logs of floors, a line of JSON for each floor, without what was said. A floor's
 * newest 500,000 events are written; older ones are left out and counted.
 * @param file a new file; absent: stdout
 * @returns the exit code: 0, or 1 if the node refuses or the file cannot be written
 */
export async function exportLogs(
  file: string | undefined,
  { url, sinceMs, floor }: ExportLogsOptions,
  { stdout, stderr, env }: Terminal,
  now: number,
): Promise<number> {
  const client = clientOf(url, env);
  const from = sinceMs === undefined ? 0 : now - sinceMs;
  try {
    const to = await openOutput(file, stdout);
    const { catalog } = await client.getReadiness();
    let floors = 0;
    let events = 0;
    for await (const floorId of floor === undefined ? allFloors(client) : [floor]) {
      const log = await readLog(client, floorId, from);
      if (log.hasMore) complain(stderr, `${floorId}: only its newest ${MAX_LOG_EVENTS} events are written`);
      if (log.events.length === 0) continue;
      floors += 1;
      events += log.events.length;
      await to.add(JSON.stringify({ ...SAVED_LOG, floorId, catalogue: catalog.hash, events: log.events }));
    }
    await to.end();
    printLines(stderr, [`${counted(floors, "floor")}, ${counted(events, "event")}`]);
    return 0;
  } catch (error) {
    complain(stderr, whyNot(error, file, floor, { baseUrl: url, env }));
    return 1;
  }
}

/** Lines go to a new file, which only its owner may read, or to stdout. */
async function openOutput(file: string | undefined, stdout: Output) {
  if (file === undefined) {
    return { add: async (line: string) => printLines(stdout, [visibleJson(line)]), end: async () => undefined };
  }
  const handle = await open(file, "wx", SECRET_MODE);
  return {
    add: (line: string) => handle.appendFile(`${line}\n`),
    async end() {
      await handle.sync();
      await handle.close();
    },
  };
}

function whyNot(
  error: unknown,
  file: string | undefined,
  floor: string | undefined,
  node: { baseUrl: string; env: NodeJS.ProcessEnv },
): string {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (code === "EEXIST") return `${file} exists: name a new file`;
  if (syscall !== undefined) return message;
  const absent =
    floor === undefined
      ? undefined
      : `There is no floor ${floor} at ${node.baseUrl}, or INTERLOCK_TOKEN may not see it.`;
  return explainFailure(error, { ...node, ...(absent !== undefined && { absent }) });
}

async function* allFloors(client: Client): AsyncGenerator<string> {
  let after: string | undefined;
  for (;;) {
    const page = await client.listFloors({ limit: FLOORS, ...(after !== undefined && { after }) });
    for (const { floorId } of page.floors) yield floorId;
    after = page.floors.at(-1)?.floorId;
    if (!page.hasMore || after === undefined) return;
  }
}

async function readLog(client: Client, floorId: string, from: number) {
  const events: LoggedServerEvent[] = [];
  let before: string | undefined;
  for (;;) {
    const page = await client.readFloorLog(floorId, { limit: PAGE, ...(before !== undefined && { before }) });
    const isInTime = ({ timestamp }: LoggedServerEvent) => Date.parse(timestamp) >= from;
    events.push(...page.events.filter((event) => isInTime(event)).flatMap(withoutWords));
    before = page.events.at(-1)?.position;
    const isAtEnd = !page.hasMore || before === undefined || !isInTime(page.events.at(-1)!);
    const isFull = events.length >= MAX_LOG_EVENTS;
    if (isAtEnd || isFull) return { events: events.slice(0, MAX_LOG_EVENTS).reverse(), hasMore: !isAtEnd };
  }
}
