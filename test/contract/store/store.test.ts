import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { KeptLog, makeFolder, StandingClock } from "../../support/stores/sqlite-place.ts";
import { LASTING, storeContract, WRITING } from "./store-contract.ts";
import { lifeContract } from "./store-life.ts";

const ports = { clock: new StandingClock(), log: new KeptLog() };

storeContract(
  "SQLite on a file",
  async () => {
    const { file, remove } = await makeFolder();
    return { isLasting: true, open: () => openSqliteStore({ file, ...ports }), remove };
  },
  LASTING,
);

/** A store in memory is a file, too, which is removed when it is closed and whose commits do not wait for the disk. */
storeContract(
  "SQLite in memory",
  async () => ({
    isLasting: false,
    open: () => openSqliteStore({ file: ":memory:", ...ports }),
    remove: async () => {},
  }),
  [...WRITING, lifeContract],
);
