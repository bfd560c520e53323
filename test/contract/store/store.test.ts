import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { KeptLog, makeFolder, StandingClock } from "../../support/stores/sqlite-place.ts";
import { storeContract } from "./store-contract.ts";
import { definitionContract } from "./store-definitions.ts";
import { historiesContract } from "./store-histories.ts";
import { lifeContract } from "./store-life.ts";
import { stagedContract } from "./store-staged.ts";

const ports = { clock: new StandingClock(), log: new KeptLog() };

/** A store in memory is a file, too, which is removed when it is closed: the other contracts hold for both alike. */
storeContract("SQLite on a file", async () => {
  const { file, remove } = await makeFolder();
  return { isLasting: true, open: () => openSqliteStore({ file, ...ports }), remove };
}, [lifeContract, historiesContract, stagedContract, definitionContract]);

storeContract("SQLite in memory", async () => ({
  isLasting: false,
  open: () => openSqliteStore({ file: ":memory:", ...ports }),
  remove: async () => {},
}));
