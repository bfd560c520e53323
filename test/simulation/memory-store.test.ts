import { commitContract } from "../contract/store/store-commit.ts";
import { storeContract } from "../contract/store/store-contract.ts";
import { lifeContract } from "../contract/store/store-life.ts";
import { logContract } from "../contract/store/store-log.ts";
import { messageContract } from "../contract/store/store-views.ts";
import { MemoryStore } from "../support/stores/memory-store.ts";

/** The parts of the contract that it keeps. */
const USED = [commitContract, logContract, messageContract, lifeContract];
const place = async () => ({ isLasting: false, open: async () => new MemoryStore(), remove: async () => {} });
storeContract("in memory, of tests", place, USED);
