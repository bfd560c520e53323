import { expect } from "vitest";
import type { ArbiterContext } from "../../../src/actors/floor/arbiter-step.ts";
import { rulesOf } from "../../../src/actors/floor/floor-state.ts";
import { readSnapshot } from "../../../src/actors/host/snapshot.ts";
import type { LoggedServerEvent } from "../../../src/client/server-event.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { checkArrangement, must } from "../../../src/policy/arrangement-check.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import type { FloorId, FloorSeq } from "../../../src/protocol/ids.ts";
import type { Store } from "../../../src/store/store.ts";
import { readCatalog } from "../catalogs/catalog.ts";
import { FloorLogCheck } from "../floors/floor-log-check.ts";
import { differencesIn, isReplayed } from "../floors/replayed-logs.ts";

const PAGE = 500;

/**
 * Check every floor of a store that no node uses any more, its log and its state, against the invariants of
 * docs/use/arbitration.md, play the logs of some tests once more with their catalogues, and close it. Throws `Broken`
 * with the floor's id.
 * @param formerTexts further catalogues that were in force
 */
export async function checkStoredFloors(
  opening: Promise<Store>,
  catalogText: string,
  formerTexts: readonly string[] = [],
): Promise<void> {
  const store = await opening;
  const catalog = readCatalog(catalogText);
  try {
    let after: FloorId | undefined;
    for (let hasMore = true; hasMore; ) {
      const page = await store.listFloors({ limit: PAGE, ...(after !== undefined && { after }) });
      for (const { floorId } of page.floors) await checkFloor(store, floorId, catalog, [...formerTexts, catalogText]);
      after = page.floors.at(-1)?.floorId;
      hasMore = page.hasMore;
    }
  } finally {
    await store.close();
  }
}

async function checkFloor(store: Store, floorId: FloorId, catalog: Catalog, texts: readonly string[]): Promise<void> {
  const check = new FloorLogCheck(catalog, false);
  let place: FloorSeq = 0;
  let at = Number.NEGATIVE_INFINITY;
  const events: LoggedServerEvent[] = [];
  try {
    for (;;) {
      const { entries, head } = await store.readFloorLog(floorId, place, PAGE);
      for (const entry of entries) {
        if (entry.floorSeq !== place + 1) check.skip();
        check.take(entry);
        place = entry.floorSeq;
        at = entry.at;
        events.push(eventOf(entry));
      }
      if (entries.length === 0 || place >= head) break;
    }
    check.end(at);
    const record = (await store.loadFloor(floorId))!;
    const { floor, flags } = readSnapshot(record).arbiter["context"] as ArbiterContext;
    checkArrangement(floor, rulesOf(catalog, flags));
    const holders = check.active.join();
    must(
      holders === (floor.holder?.sessionId ?? ""),
      () => `${holders} is active, ${floor.holder?.sessionId} holds it`,
    );
    const beneath = floor.ducked.map(({ sessionId }) => sessionId).sort();
    must(check.ducked.sort().join() === beneath.join(), () => `${check.ducked} are ducked, listed ${beneath}`);
    if (!isReplayed(expect.getState().testPath)) return;
    const differences = differencesIn({ floorId, events, texts });
    must(differences.length === 0, () => `its log replays otherwise: ${differences.join("; ")}`);
  } catch (error) {
    throw new Error(`floor ${floorId}, after ${place}: ${(error as Error).message}`, { cause: error });
  }
}

function eventOf({ type, sessionId, seq, requestId, at, json }: LogEntry): LoggedServerEvent {
  const place = { ...(sessionId && { sessionId, seq }), ...(requestId && { requestId }) };
  return { type, ...place, timestamp: new Date(at).toISOString(), data: JSON.parse(json) } as LoggedServerEvent;
}
