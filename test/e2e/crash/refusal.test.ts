import { link, open, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { makeInstallation } from "../../support/nodes/child-server.ts";

const CATALOG = { agents: [{ name: "general" }] };

test("a second node on the same file is refused with a sentence, and the first continues", async () => {
  const installation = await makeInstallation(CATALOG);
  const first = await installation.start();
  const second = installation.begin();
  expect(await second.ended).toEqual({ code: 1, signal: null });
  expect(second.stderr).toBe(
    `interlock: ${installation.file} is in use by another Interlock: a SQLite store has one owner at a time\n`,
  );
  expect((await first.post("/session/create", { userId: "ann" })).status).toBe(200);
  await first.kill();
  // The lock of a killed process is free.
  const third = await installation.start();
  expect((await third.ask("GET", "/session/list")).status).toBe(200);
});

test("a second node that opens the file by a link of either kind is refused, and the first continues", async () => {
  const [installation, other] = [await makeInstallation(CATALOG), await makeInstallation(CATALOG)];
  for (const each of [installation, other]) each.leaveUnchecked();
  const first = await installation.start();
  await symlink(installation.file, other.file);
  const bySymlink = other.begin();
  expect(await bySymlink.ended).toEqual({ code: 1, signal: null });
  expect(bySymlink.stderr).toContain(`${installation.file} is in use by another Interlock`);
  await rm(other.file);
  await link(installation.file, other.file);
  const byHardLink = other.begin();
  expect(await byHardLink.ended).toEqual({ code: 1, signal: null });
  expect(byHardLink.stderr).toContain(`${other.file} has 2 names (hard links)`);
  expect((await first.post("/session/create", { userId: "ann" })).status).toBe(200);
});

test("a node whose lock is removed leaves the file to the next node that opens it, and acknowledges nothing more", async () => {
  const installation = await makeInstallation(CATALOG);
  const first = await installation.start();
  await rm(`${installation.file}-lock`);
  expect((await first.post("/session/create", { id: "a", userId: "ann" })).status).toBe(200);
  const second = await installation.start();
  const refused = await first.post("/session/create", { id: "b", userId: "ann" }, "key-b");
  expect([refused.status, refused.body.errorCode]).toEqual([503, "unavailable"]);
  expect(first.stderr).toContain(`was opened by another process, after ${installation.file}-lock was removed`);
  await first.kill();
  expect((await second.ask("GET", "/session/a")).status).toBe(200);
  expect((await second.post("/session/create", { id: "b", userId: "ann" }, "key-b")).status).toBe(200);
});

test("a node whose database is moved is unavailable, and acknowledges nothing that a restart does not find", async () => {
  const installation = await makeInstallation(CATALOG);
  const first = await installation.start();
  expect((await first.post("/session/create", { id: "a", userId: "ann" })).status).toBe(200);
  await rename(installation.file, `${installation.file}.away`);
  const ready = await first.ask("GET", "/ready");
  expect([ready.status, ready.body.missing]).toEqual([
    503,
    ["the database's file was moved, removed or replaced: put it back"],
  ]);
  const refused = await first.post("/session/create", { id: "b", userId: "ann" }, "key-b");
  expect([refused.status, refused.body.errorCode]).toEqual([503, "unavailable"]);
  expect(first.stderr).toContain("was moved, removed or replaced while it was open");
  expect((await first.ask("GET", "/ready")).status).toBe(503);
  await rename(`${installation.file}.away`, installation.file);
  expect((await first.post("/session/create", { id: "b", userId: "ann" }, "key-b")).status).toBe(200);
  expect((await first.ask("GET", "/ready")).status).toBe(200);
  await first.kill();
  const second = await installation.start();
  for (const id of ["a", "b"]) expect((await second.ask("GET", `/session/${id}`)).status).toBe(200);
});

test.each(["absent", "empty"])(
  "a node whose database is %s beside a log of commits refuses to start, and finds all of them when it is put back",
  async (kind) => {
    const installation = await makeInstallation(CATALOG);
    const first = await installation.start();
    for (const id of ["a", "b"]) expect((await first.post("/session/create", { id, userId: "ann" })).status).toBe(200);
    await first.kill();
    const { file } = installation;
    await rename(file, `${file}.away`);
    if (kind === "empty") await writeFile(file, "");
    // Each try is refused: the first one must not leave a file with which the second one would begin.
    for (let tries = 0; tries < 2; tries++) {
      const refused = installation.begin();
      expect(await refused.ended).toEqual({ code: 1, signal: null });
      expect(refused.stderr).toBe(
        `interlock: ${file} is ${kind === "empty" ? "empty" : "missing"}, but ${file}-wal has commits of it: put the database ` +
          `back; or, for a new one, move ${file}-wal away and keep it with the database that it belongs to\n`,
      );
    }
    await rename(`${file}.away`, file);
    const second = await installation.start();
    for (const id of ["a", "b"]) expect((await second.ask("GET", `/session/${id}`)).status).toBe(200);
  },
);

test("a damaged database is refused with the fault and the remedy", async () => {
  const installation = await makeInstallation(CATALOG);
  installation.leaveUnchecked();
  const first = await installation.start();
  for (let n = 0; n < 20; n++) await first.post("/session/create", { userId: "ann", title: "x".repeat(150) });
  first.signal("SIGTERM");
  await first.ended;
  const bytes = await readFile(installation.file);
  await writeFile(installation.file, bytes.fill(0xa5, 8_192, 40_960));
  const node = installation.begin();
  expect(await node.ended).toEqual({ code: 1, signal: null });
  expect(node.stderr).toMatch(/^interlock: \S+ is damaged \(.+\): keep a copy of it, and restore a backup; .+\n$/);
});

test("a damaged database over 64 MiB is served, while the log and /ready say that it is damaged", async () => {
  const installation = await makeInstallation(CATALOG);
  installation.leaveUnchecked();
  const first = await installation.start();
  await first.post("/session/create", { id: "a", userId: "ann" });
  first.signal("SIGTERM");
  await first.ended;
  const db = new DatabaseSync(installation.file);
  const where = db.prepare("PRAGMA page_count").get() as { page_count: number };
  db.prepare("INSERT INTO blobs (session_id, hash, mime_type, created_at, bytes) VALUES ('a', 'h', 'm', ?, ?)").run(
    Date.now(),
    new Uint8Array(70_000_000),
  );
  db.close();
  // A page of the new row, which no request reads.
  const handle = await open(installation.file, "r+");
  await handle.write(Buffer.alloc(4_096, 0xa5), 0, 4_096, (where.page_count + 100) * 4_096);
  await handle.close();
  const node = await installation.start();
  await node.logged(
    ({ msg }) => msg.startsWith(`${installation.file} is damaged (`) && msg.includes("restore a backup"),
  );
  const ready = await node.ask("GET", "/ready");
  expect([ready.status, ready.body]).toMatchObject([503, { missing: [expect.stringContaining("is damaged")] }]);
  expect((await node.ask("GET", "/session/a")).status).toBe(200);
  expect((await node.post("/session/create", { id: "b", userId: "ann" })).status).toBe(200);
});

test("a database of a newer version is refused with a sentence, and stays unchanged", async () => {
  const installation = await makeInstallation(CATALOG);
  installation.leaveUnchecked();
  const first = await installation.start();
  await first.post("/session/create", { id: "a", userId: "ann" });
  first.signal("SIGTERM");
  await first.ended;
  const db = new DatabaseSync(installation.file);
  db.exec("PRAGMA user_version = 99");
  db.close();
  const second = installation.begin();
  expect(await second.ended).toEqual({ code: 1, signal: null });
  expect(second.stderr).toMatch(/^interlock: \S+ has version 99, newer than the \d+ this program knows: run a newer /);
  expect(second.stderr.trim().split("\n")).toHaveLength(1);
});

test("a file that is not a database is refused with a sentence, and stays unchanged", async () => {
  const installation = await makeInstallation(CATALOG);
  installation.leaveUnchecked();
  await writeFile(installation.file, "remember the milk");
  const node = installation.begin();
  expect(await node.ended).toEqual({ code: 1, signal: null });
  expect(node.stderr).toBe(`interlock: ${installation.file} is not a SQLite database\n`);
});

test("a port in use is refused too, and the database file is left to others", async () => {
  const [installation, other] = [await makeInstallation(CATALOG), await makeInstallation(CATALOG)];
  const first = await installation.start();
  const second = other.begin({ settings: { PORT: new URL(first.url).port } });
  expect(await second.ended).toEqual({ code: 1, signal: null });
  expect(second.stderr).toMatch(/^interlock: port \d+ of 127\.0\.0\.1 is in use/);
  const third = await other.start();
  expect((await third.ask("GET", "/ready")).status).toBe(200);
});
