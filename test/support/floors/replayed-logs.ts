import type { LoggedServerEvent } from "../../../src/client/server-event.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { decodeCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { withoutWords } from "../../../src/policy/replay/needed-events.ts";
import { replayFloor } from "../../../src/policy/replay/replay.ts";
import { ReplaySummary } from "../../../src/policy/replay/replay-report.ts";

/** Folders of tests after which the logs of all floors are played with their own catalogues. */
const REPLAYED = /^(attacks|client|cluster|contract|crash|deploy|doors|minds|mqtt|page|players|streams|watching)\//;

/** Of what these do a log does not tell, or they look at every request that their nodes get. */
const LEFT_OUT: readonly string[] = [
  // They set the wall clock.
  "crash/clock-jump.test.ts",
  // They read which requests a node traces.
  "watching/traces.test.ts",
];

export function isReplayed(testPath = ""): boolean {
  const [, file] = testPath.split("/test/e2e/");
  if (file === undefined || LEFT_OUT.includes(file)) return false;
  return !file.includes("/") || REPLAYED.test(file);
}

interface RecordedLog {
  floorId: string;
  /** The oldest first. */
  events: readonly LoggedServerEvent[];
  /** Of the catalogues that were written, in this order; those with faults were never in force. */
  texts: readonly string[];
}

/** Whether the event is of these catalogues: agents that are defined in the database are in none. */
function isOf({ type, data }: LoggedServerEvent, catalogs: ReadonlyMap<string, Catalog>): boolean {
  if (type === "session_created") return [...catalogs.values()].some(({ agents }) => agents.has(data.agentId));
  if (type !== "floor_updated" || !data.catalogue) return true;
  return catalogs.has(data.catalogue.hash) && catalogs.has(data.catalogue.former);
}

/** Catalogues of this process's nodes by their texts, most of which are equal; undefined: with faults. */
const known = new Map<string, Catalog | undefined>();

function readOnce(text: string): Catalog | undefined {
  if (!known.has(text)) {
    const reading = decodeCatalog(Buffer.from(text));
    known.set(text, reading.ok ? reading.catalog : undefined);
  }
  return known.get(text);
}

/** What is otherwise if a log is played with its own catalogues, a line for each. */
export function differencesIn({ floorId, events, texts }: RecordedLog): string[] {
  const catalogs = texts.map(readOnce).filter((catalog) => catalog !== undefined);
  const catalog = catalogs.at(-1);
  const needed = events.flatMap(withoutWords);
  const former = new Map(catalogs.map((each) => [each.hash, each]));
  if (!catalog || needed.length === 0 || !needed.every((event) => isOf(event, former))) return [];
  const replayed = replayFloor(floorId, needed, { catalog, former, refusedLastMs: 30_000 });
  return new ReplaySummary().add(replayed).differences.map(({ at, agentId, sessionId, before, after }) => {
    return `${floorId} ${new Date(at).toISOString()} ${agentId} ${sessionId}: ${before} -> ${after}`;
  });
}
