import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { LoggedServerEvent } from "../../client/server-event.ts";
import type { Catalog } from "../../config/catalog/catalog.ts";
import { decodeCatalog } from "../../config/catalog/catalog-file.ts";
import { withDefinitions } from "../../config/catalog/definition.ts";
import type { FloorReplay } from "../../protocol/replay.ts";
import { withoutWords } from "./needed-events.ts";
import { replayFloor } from "./replay.ts";
import { ReplaySummary } from "./replay-report.ts";
import type { ReplayInput, ReplayJob, ReplayOutcome } from "./replay-thread.ts";

/** The maximum number of listed differences. */
const MAX_LISTED = 1_000;
/** The longest answer, in characters. */
const MAX_ANSWER = 16_777_216;

/** What shows a floor over time, and why. */
const SHOWN: ReadonlySet<string> = new Set(["session_created", "session_transition", "arbitration", "agent_switched"]);

/** The thread of a replay: it takes the events, and posts one outcome. */
function work(port: MessagePort, job: ReplayJob): void {
  const reading = decodeCatalog(job.yaml);
  if (!reading.ok) return port.postMessage({ kind: "faulty", faults: reading.faults } satisfies ReplayOutcome);
  const catalog = withDefinitions(reading.catalog, job.definitions);
  const log = new ArrivingLog();
  port.on("message", (input: ReplayInput) => {
    if ("events" in input) return log.add(input.events);
    const json = JSON.stringify({ success: true, ...replayed(log, { ...input, catalog, job }) });
    const outcome: ReplayOutcome = json.length > MAX_ANSWER ? { kind: "too_large" } : { kind: "played", json };
    port.postMessage(outcome);
    port.close();
  });
}

/** A log that arrives from its end, and what of it a replay needs. */
class ArrivingLog {
  readonly titles = new Map<string, string>();
  readonly #events: LoggedServerEvent[] = [];

  add(texts: readonly string[]): void {
    for (const text of texts) {
      const event: LoggedServerEvent = JSON.parse(text);
      if (event.type === "session_created") this.titles.set(event.data.id, event.data.title);
      this.#events.push(...withoutWords(event));
    }
  }

  /** The oldest first. */
  whole(): LoggedServerEvent[] {
    return this.#events.reverse();
  }
}

interface Asked {
  catalog: Catalog;
  job: ReplayJob;
  hasMore: boolean;
}

function replayed(
  log: ArrivingLog,
  { catalog, job: { floorId, refusedLastMs }, hasMore }: Asked,
): FloorReplay & { before: LoggedServerEvent[]; after: LoggedServerEvent[] } {
  const events = log.whole();
  const summary = new ReplaySummary();
  const replay = events.length === 0 ? undefined : replayFloor(floorId, events, { catalog, refusedLastMs });
  const differences = replay ? summary.add(replay).differences : [];
  const { requests, reloads, unknown, agents } = summary.report();
  const shown = (all: readonly LoggedServerEvent[] = []) =>
    all.flatMap((event) => (SHOWN.has(event.type) ? [titled(event, log.titles)] : []));
  return {
    hash: catalog.hash,
    ...(replay && { from: replay.startedAt, to: replay.endedAt }),
    ...{ requests, reloads, unknown, hasMore, differing: differences.length },
    differences: differences.slice(0, MAX_LISTED).map(({ floorId: _, ...difference }) => difference),
    agents: [...agents],
    before: shown(events),
    after: shown(replay?.after),
  };
}

/** A session of the replay has the title that it has in the log. */
function titled(event: LoggedServerEvent, titles: ReadonlyMap<string, string>): LoggedServerEvent {
  if (event.type !== "session_created") return event;
  return { ...event, data: { ...event.data, title: titles.get(event.data.id) ?? "" } };
}

if (parentPort) work(parentPort, workerData as ReplayJob);
