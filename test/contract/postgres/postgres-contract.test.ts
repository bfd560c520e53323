import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";
import { storeContract } from "../store/store-contract.ts";

const ports = { clock: new StandingClock(), log: new KeptLog() };

describeWith([POSTGRES], "the contract on PostgreSQL", (start) => {
  const server = serverOf(start);

  storeContract("PostgreSQL", async () => {
    const { url, drop } = await server().makeDatabase();
    // Not dropped if the server is about to stop, because dropping is slow.
    const remove = async () => (server().isOurs ? undefined : await drop());
    return { isLasting: true, open: () => openPostgresStore({ url, ...ports }), remove };
  });
});
