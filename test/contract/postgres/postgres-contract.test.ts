import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { askDatabase, POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";
import { storeContract } from "../store/store-contract.ts";

/** All rows but those of the migrations: the store's name, and the floor of definitions. */
const EMPTY_TABLES = `DO $$ BEGIN
  EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
    WHERE schemaname = 'interlock' AND tablename NOT IN ('meta', 'migrations', 'functions', 'floors'));
  DELETE FROM interlock.floors WHERE id <> '';
  UPDATE interlock.floors SET version = 0, head = 0;
END $$`;

const ports = { clock: new StandingClock(), log: new KeptLog() };

describeWith([POSTGRES], "the contract on PostgreSQL", (start) => {
  const server = serverOf(start);

  storeContract("PostgreSQL", async () => {
    const { url, drop } = await server().makeDatabase();
    // Not dropped if the server is about to stop, because dropping is slow.
    const remove = async () => (server().isOurs ? undefined : await drop());
    const empty = async () => void (await askDatabase(url, EMPTY_TABLES));
    return { isLasting: true, open: () => openPostgresStore({ url, ...ports }), empty, remove };
  });
});
