import { rename, rm } from "node:fs/promises";
import { expect, test } from "vitest";
import { makeInstallation } from "../../support/nodes/child-server.ts";

const CATALOG = { agents: [{ name: "general" }] };

test("a second node on the same file is refused with a sentence; a node whose database is moved or taken over is unavailable, and acknowledges nothing that the next node does not find", async () => {
  const installation = await makeInstallation(CATALOG);
  const first = await installation.start();
  const create = async (id: string, node = first) => {
    const { status, body } = await node.post("/session/create", { id, userId: "ann" }, `key-${id}`);
    return [status, body.errorCode];
  };
  const refused = installation.begin();
  expect(await refused.ended).toEqual({ code: 1, signal: null });
  expect(refused.stderr).toBe(
    `interlock: ${installation.file} is in use by another Interlock: a SQLite store has one owner at a time\n`,
  );
  expect(await create("a")).toEqual([200, undefined]);
  await rename(installation.file, `${installation.file}.away`);
  const ready = await first.ask("GET", "/ready");
  expect([ready.status, ready.body.missing]).toEqual([
    503,
    ["the database's file was moved, removed or replaced: put it back"],
  ]);
  expect(await create("b")).toEqual([503, "unavailable"]);
  await first.printed("was moved, removed or replaced while it was open");
  expect((await first.ask("GET", "/ready")).status).toBe(503);
  await rename(`${installation.file}.away`, installation.file);
  expect(await create("b")).toEqual([200, undefined]);
  expect((await first.ask("GET", "/ready")).status).toBe(200);

  // Without its lock it goes on, until the next node takes the file.
  await rm(`${installation.file}-lock`);
  expect(await create("c")).toEqual([200, undefined]);
  const second = await installation.start();
  expect(second.stdout).toContain(`store      ${installation.file}\n`);
  expect(await create("d")).toEqual([503, "unavailable"]);
  await first.printed(`was opened by another process, after ${installation.file}-lock was removed`);
  await first.kill();
  for (const id of ["a", "b", "c"]) expect((await second.ask("GET", `/session/${id}`)).status).toBe(200);
  expect(await create("d", second)).toEqual([200, undefined]);
});
