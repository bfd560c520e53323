import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { readPage } from "../../docs/page.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const run = promisify(execFile);
const NAME = "a pg_dump that was taken while a node runs is restored as docs/operate/operations.md shows, and goes on";

describeWith([POSTGRES, "pgDump"], "a backup of PostgreSQL", (start) => {
  const server = serverOf(start);

  test(NAME, async ({ skip }) => {
    const [url, restored] = [await makeDatabase(server()), await makeDatabase(server())];
    const [row] = await askDatabase(url, "SELECT current_setting('server_version_num')::int / 10000 AS major");
    const [, version] = /\) (\d+)/.exec((await run("pg_dump", ["--version"])).stdout)!;
    skip(Number(version) < Number(row!["major"]), "pg_dump refuses a server that is newer");
    const node = await openNode(url);
    const floor = new FloorWriter(node);
    await floor.write({ sessions: [floor.session("a")] });
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    const file = join(folder, "dump");
    await run("pg_dump", ["--format=custom", `--file=${file}`, url]);
    const later = new FloorWriter(node, "u:bob");
    await later.write({ sessions: [later.session("b")] });
    await run("pg_restore", ["--exit-on-error", `--dbname=${restored}`, file]);
    const shown = readPage("docs/operate/operations.md").blocks.find(({ text }) =>
      text.startsWith('psql "$INTERLOCK_STORE" -c'),
    )!;
    await askDatabase(restored, /"(UPDATE [^"]+)"/.exec(shown.text)![1]!);
    const next = await openNode(restored);
    expect([next.epoch, next.secret]).toEqual(["r1", node.secret]);
    expect((await next.loadSession("a" as SessionId))?.session).toEqual(floor.session("a"));
    expect(await next.loadSession("b" as SessionId)).toBeUndefined();
    floor.continueIn(next);
    await floor.write({ sessions: [floor.session("c")] });
    expect((await next.loadSession("c" as SessionId))?.session).toEqual(floor.session("c"));
  });
});
