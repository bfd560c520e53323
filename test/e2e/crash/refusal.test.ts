import { writeFile } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { makeHouse } from "../../support/child-server.ts";

const CATALOG = { agents: [{ name: "general" }] };

test("a second node on the same file is refused with a sentence, and the first goes on", async () => {
  const house = await makeHouse(CATALOG);
  const first = await house.start();
  const second = house.begin();
  expect(await second.ended).toEqual({ code: 1, signal: null });
  expect(second.stderr).toBe(
    `interlock: ${house.file} is in use by another Interlock: a SQLite store has one owner at a time\n`,
  );
  expect((await first.post("/session/create", { userId: "ann" })).status).toBe(200);
  await first.kill();
  // The lock of one that was killed is nobody's.
  const third = await house.start();
  expect((await third.ask("GET", "/session/list")).status).toBe(200);
});

test("a database of a newer version is refused with a sentence, and stays as it is", async () => {
  const house = await makeHouse(CATALOG);
  const first = await house.start();
  await first.post("/session/create", { id: "a", userId: "ann" });
  first.signal("SIGTERM");
  await first.ended;
  const db = new DatabaseSync(house.file);
  db.exec("PRAGMA user_version = 99");
  db.close();
  const second = house.begin();
  expect(await second.ended).toEqual({ code: 1, signal: null });
  expect(second.stderr).toMatch(/^interlock: \S+ has version 99, newer than the \d+ this program knows: run a newer /);
  expect(second.stderr.trim().split("\n")).toHaveLength(1);
});

test("a file that is no database is refused with a sentence, and stays as it is", async () => {
  const house = await makeHouse(CATALOG);
  await writeFile(house.file, "remember the milk");
  const node = house.begin();
  expect(await node.ended).toEqual({ code: 1, signal: null });
  expect(node.stderr).toBe(`interlock: ${house.file} is not a SQLite database\n`);
});

test("a port that is taken is a refusal too, and leaves the file to others", async () => {
  const [house, other] = [await makeHouse(CATALOG), await makeHouse(CATALOG)];
  const first = await house.start();
  const second = other.begin({ settings: { PORT: new URL(first.url).port } });
  expect(await second.ended).toEqual({ code: 1, signal: null });
  expect(second.stderr).toMatch(/^interlock: .*EADDRINUSE/);
  const third = await other.start();
  expect((await third.ask("GET", "/ready")).status).toBe(200);
});
