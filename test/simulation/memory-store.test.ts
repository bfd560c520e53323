import { commitContract } from "../contract/store/store-commit.ts";
import { storeContract } from "../contract/store/store-contract.ts";
import { lifeContract } from "../contract/store/store-life.ts";
import { logContract } from "../contract/store/store-log.ts";
import { viewContract } from "../contract/store/store-views.ts";
import { MemoryStore } from "../support/stores/memory-store.ts";

/** The parts of the contract that it keeps; search in every script and pruning are not among them. */
const USED = [commitContract, logContract, viewContract, lifeContract];
const place = async () => ({ isLasting: false, open: async () => new MemoryStore(), remove: async () => {} });
storeContract("in memory, of tests", place, USED);
