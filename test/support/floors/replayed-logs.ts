import type { LoggedServerEvent } from "../../../src/client/server-event.ts";
import { decodeCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { withoutWords } from "../../../src/policy/replay/needed-events.ts";
import { replayFloor } from "../../../src/policy/replay/replay.ts";
import { ReplaySummary } from "../../../src/policy/replay/replay-report.ts";

/**
 * Tests after which the logs of all floors are played with their own catalogues. Left out are tests that set the wall
 * clock, delete sessions by the dozen, or define agents in the database, of which a log does not tell; and those whose
 * nodes want a credential.
 */
const REPLAYED = [
  "/e2e/replay.test.ts",
  ...["arbitration", "floors", "heard-together"].map((name) => `/contract/floors/${name}.test.ts`),
  ...["ended-while-writing", "interactions", "messages", "turns"].map((name) => `/contract/turns/${name}.test.ts`),
  ...["routing", "runs"].map((name) => `/contract/turns/${name}.test.ts`),
  ...["all-zones", "forks", "if-seq", "moves", "schedules"].map((name) => `/contract/sessions/${name}.test.ts`),
  "/e2e/car.test.ts",
  // Nodes that are killed, frozen or restarted, and several nodes on one database.
  ...["frozen", "leases", "programs", "restart"].map((name) => `/e2e/crash/${name}.test.ts`),
  ...["leases", "rolling-restart", "workers"].map((name) => `/e2e/cluster/${name}.test.ts`),
];

export const isReplayed = (file: string | undefined): boolean => REPLAYED.some((each) => file?.endsWith(each));

interface RecordedLog {
  floorId: string;
  /** The oldest first. */
  events: readonly LoggedServerEvent[];
  /** Of the catalogues that were written, in this order; those with faults were never in force. */
  texts: readonly string[];
}

/** What is otherwise if a log is played with its own catalogues, a line for each. */
export function differencesIn({ floorId, events, texts }: RecordedLog): string[] {
  const catalogs = texts.flatMap((text) => {
    const reading = decodeCatalog(Buffer.from(text));
    return reading.ok ? [reading.catalog] : [];
  });
  const catalog = catalogs.at(-1);
  const needed = events.flatMap(withoutWords);
  if (!catalog || needed.length === 0) return [];
  const former = new Map(catalogs.map((each) => [each.hash, each]));
  const replayed = replayFloor(floorId, needed, { catalog, former, refusedLastMs: 30_000 });
  return new ReplaySummary().add(replayed).differences.map(({ at, agentId, sessionId, before, after }) => {
    return `${floorId} ${new Date(at).toISOString()} ${agentId} ${sessionId}: ${before} -> ${after}`;
  });
}
