import { afterAll, afterEach, beforeEach, describe } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";
import { budgetContract, budgetLifeContract } from "./store-budgets.ts";
import { commitContract } from "./store-commit.ts";
import { definitionContract } from "./store-definitions.ts";
import { historiesContract } from "./store-histories.ts";
import { lifeContract } from "./store-life.ts";
import { logContract } from "./store-log.ts";
import { noticeContract } from "./store-notices.ts";
import { pageContract } from "./store-pages.ts";
import { pruneContract } from "./store-prune.ts";
import { runListContract } from "./store-runs.ts";
import { searchContract } from "./store-search.ts";
import { stagedContract } from "./store-staged.ts";
import { messageContract, viewContract } from "./store-views.ts";

/** A new, empty place for a store. */
interface StorePlace {
  /** A store is opened once at a time. */
  open(): Promise<Store>;
  /** Delete what a store wrote that is closed. Absent: each test has a place of its own. */
  empty?(): Promise<void>;
  /** Whether data survives closing the store. */
  isLasting: boolean;
  /** Called after the store was closed. */
  remove(): Promise<void>;
}

/** The context of a test. */
export interface StoreStage {
  readonly store: Store;
  /** A floor of the store that nothing has written. */
  readonly floor: FloorWriter;
  readonly isLasting: boolean;
  reopen(): Promise<Store>;
}

/** Tests that open a store again, or stage what is adopted later. */
export const LASTING = [lifeContract, historiesContract, stagedContract, definitionContract, budgetLifeContract];
export const WRITING = [
  commitContract,
  logContract,
  pageContract,
  messageContract,
  viewContract,
  runListContract,
  searchContract,
  pruneContract,
  budgetContract,
  noticeContract,
];

/** The contract of the port, for every implementation; `contracts`: only these parts of it. */
export function storeContract(
  name: string,
  makePlace: () => Promise<StorePlace>,
  contracts = [...WRITING, ...LASTING],
): void {
  describe(`store: ${name}`, () => {
    let place: StorePlace | undefined;
    let store: Store;
    let floor: FloorWriter;
    beforeEach(async () => {
      place ??= await makePlace();
      store = await place.open();
      floor = new FloorWriter(store);
    });
    afterEach(async () => {
      await store.close();
      if (place?.empty) return await place.empty();
      await place?.remove();
      place = undefined;
    });
    afterAll(() => place?.remove());
    const stage: StoreStage = {
      get store() {
        return store;
      },
      get floor() {
        return floor;
      },
      get isLasting() {
        return place!.isLasting;
      },
      async reopen() {
        await store.close();
        store = await place!.open();
        return store;
      },
    };
    for (const contract of contracts) contract(stage);
  });
}
