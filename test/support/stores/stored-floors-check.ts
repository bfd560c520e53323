import type { ArbiterContext } from "../../../src/actors/floor/arbiter-step.ts";
import { rulesOf } from "../../../src/actors/floor/floor-claims.ts";
import { readSnapshot } from "../../../src/actors/host/snapshot.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { checkArrangement, must } from "../../../src/policy/arrangement-check.ts";
import type { FloorId, FloorSeq } from "../../../src/protocol/ids.ts";
import type { FloorStore, LogStore, ViewStore } from "../../../src/store/store.ts";
import { FloorLogCheck } from "../floors/floor-log-check.ts";

const PAGE = 500;

/**
 * Check every floor of a store that no node uses any more, its log and its state, against the invariants of
 * docs/use/arbitration.md. Throws `Broken` with the floor's id.
 * @returns the number of floors
 */
export async function checkStoredFloors(store: FloorStore & LogStore & ViewStore, catalog: Catalog): Promise<number> {
  let count = 0;
  let after: FloorId | undefined;
  for (;;) {
    const page = await store.listFloors({ limit: PAGE, ...(after !== undefined && { after }) });
    for (const { floorId } of page.floors) await checkFloor(store, floorId, catalog);
    count += page.floors.length;
    after = page.floors.at(-1)?.floorId;
    if (!page.hasMore) return count;
  }
}

async function checkFloor(store: FloorStore & LogStore & ViewStore, floorId: FloorId, catalog: Catalog): Promise<void> {
  const check = new FloorLogCheck(catalog, false);
  let place: FloorSeq = 0;
  let at = Number.NEGATIVE_INFINITY;
  try {
    for (;;) {
      const { entries, head } = await store.readFloorLog(floorId, place, PAGE);
      for (const entry of entries) {
        if (entry.floorSeq !== place + 1) check.skip();
        check.take(entry);
        place = entry.floorSeq;
        at = entry.at;
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
  } catch (error) {
    throw new Error(`floor ${floorId}, after ${place}: ${(error as Error).message}`, { cause: error });
  }
}
