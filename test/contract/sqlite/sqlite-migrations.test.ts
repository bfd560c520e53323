import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { listMigrations, migrationsFolder } from "../../../src/store/migrate.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { FloorWriter, makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import { KeptLog, makeFolder, StandingClock } from "../../support/stores/sqlite-place.ts";

const TABLES = ["meta", "floors", "sessions", "messages", "events", "event_blobs"];

/** Write the content of `file` into a new database of an earlier version. */
async function writeEarlier(file: string, to: string, version: number): Promise<void> {
  const db = new DatabaseSync(to);
  for (const { sql } of (await listMigrations(migrationsFolder("sqlite"))).slice(0, version)) db.exec(sql);
  db.exec(`PRAGMA user_version = ${version}; ATTACH '${file}' AS later`);
  for (const table of TABLES) {
    const columns = db.prepare(`SELECT name FROM pragma_table_info('${table}')`).all();
    const names = columns.map(({ name }) => name).join(", ");
    db.exec(`INSERT OR REPLACE INTO main.${table} (${names}) SELECT ${names} FROM later.${table}`);
  }
  db.close();
}

async function openStore(file: string): Promise<Store> {
  const store = await openSqliteStore({ file, clock: new StandingClock(), log: new KeptLog() });
  onTestFinished(() => store.close());
  return store;
}

/** Two floors with four sessions each, whose events alternate; with texts that messages share, and a large one. */
async function fill(store: Store): Promise<void> {
  for (const user of ["u:ann", "u:bob"]) {
    const floor = new FloorWriter(store, user);
    const ids = [0, 1, 2, 3].map((index) => `${user}-${index}`);
    await floor.write({ sessions: ids.map((id) => floor.session(id)) });
    for (let turn = 0; turn < 60; turn++) {
      const id = ids[turn % 7] ?? ids[0]!;
      const message = makeMessage(id, `m${turn}`, { content: `word ${turn} `.repeat(20) });
      await floor.write({
        sessions: [floor.session(id, turn === 59 ? { state: "archived" } : {})],
        messages: [{ kind: "add", message }],
        events: [
          floor.event("arbitration", { say: `${turn}` }, turn % 3 === 0 ? {} : { session: id }),
          floor.event("message", message, { session: id }),
          floor.event("data", { text: turn === 9 ? "航".repeat(30_000) : "" }, { session: id }),
        ],
      });
    }
  }
}

async function readAll(store: Store) {
  const floors = ["u:ann", "u:bob"] as FloorWriter["id"][];
  const ids = floors.flatMap((floor) => [0, 1, 2, 3].map((index) => `${floor}-${index}` as SessionId));
  return {
    floors: await Promise.all(floors.map((id) => store.readFloorLog(id, 0, 1_000))),
    views: await Promise.all(floors.map((id) => store.viewFloor(id, { sessions: 9, decisions: 50 }))),
    sessions: await Promise.all(ids.flatMap((id) => [0, 5, 17].map((after) => store.readSessionLog(id, after, 1_000)))),
  };
}

test("a database of a version without blocks of log keeps its logs, and is usable", async () => {
  const { file, folder, remove } = await makeFolder();
  onTestFinished(remove);
  const store = await openStore(file);
  await fill(store);
  const all = await readAll(store);
  await store.close();
  const old = join(folder, "old.db");
  await writeEarlier(file, old, 5);

  const migrated = await openStore(old);
  expect(await readAll(migrated)).toEqual(all);

  const id = "u:ann-1" as SessionId;
  const floor = await migrated.loadFloor("u:ann" as FloorWriter["id"]);
  const writer = new FloorWriter(migrated);
  Object.assign(writer, { version: floor!.version, head: all.floors[0]!.head });
  const last = writer.event("session_transition", {}, { session: id });
  await writer.write({ deleted: [{ sessionId: id, last, at: NOON }] });
  expect(await migrated.readSessionLog(id, 0, 9)).toBeUndefined();
  const left = all.floors[0]!.entries.filter(({ sessionId }) => sessionId !== id);
  expect((await migrated.readFloorLog(writer.id, 0, 1_000)).entries).toEqual([...left, last]);
  await migrated.close();
  const db = new DatabaseSync(old);
  onTestFinished(() => db.close());
  expect(db.prepare("PRAGMA foreign_key_check").all()).toEqual([]);
  expect(db.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
});
