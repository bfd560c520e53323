import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { KeptLog, makeFolder, StandingClock } from "../../support/stores/sqlite-place.ts";
import { storeContract } from "./store-contract.ts";

const ports = { clock: new StandingClock(), log: new KeptLog() };

storeContract("SQLite on a file", async () => {
  const { file, remove } = await makeFolder();
  return { isLasting: true, open: () => openSqliteStore({ file, ...ports }), remove };
});

storeContract("SQLite in memory", async () => ({
  isLasting: false,
  open: () => openSqliteStore({ file: ":memory:", ...ports }),
  remove: async () => {},
}));
