import { afterEach, beforeEach, describe } from "vitest";
import { commitContract } from "../../contract/store/store-commit.ts";
import type { StoreStage } from "../../contract/store/store-contract.ts";
import { lifeContract } from "../../contract/store/store-life.ts";
import { logContract } from "../../contract/store/store-log.ts";
import { pageContract } from "../../contract/store/store-pages.ts";
import { viewContract } from "../../contract/store/store-views.ts";
import { MemoryStore } from "./memory-store.ts";

/** The parts of the store's contract that a simulation uses: not search in every script, pruning, staging, definitions. */
describe("store: the simulation's own", () => {
  let store: MemoryStore;
  beforeEach(() => {
    store = new MemoryStore();
  });
  afterEach(() => store.close());
  const stage: StoreStage = {
    get store() {
      return store;
    },
    isLasting: false,
    reopen: () => Promise.reject(new Error("it does not outlive its closing")),
  };
  for (const contract of [commitContract, logContract, pageContract, viewContract, lifeContract]) contract(stage);
});
