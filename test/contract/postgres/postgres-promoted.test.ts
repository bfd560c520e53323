import { expect, test } from "vitest";
import { EventStream } from "../../support/clients/event-stream.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, type SmallPostgres, smallPostgres } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";

/** Copies of a server start within seconds on a busy machine. */
const PATIENCE_MS = 60_000;

describeWith([smallPostgres()], "a standby of PostgreSQL that is promoted", (start) => {
  const started = serverOf(start);
  const primary = () => started() as SmallPostgres;

  /**
   * A standby that has all commits, and gets no more after `detach`; `promote` puts it in the place of the first
   * server.
   */
  async function follow() {
    const standby = await primary().process.startStandby();
    const ask = (sql: string) => askDatabase(standby.url, sql);
    return {
      async detach() {
        const [row] = await askDatabase(primary().url, "SELECT pg_current_wal_flush_lsn()::text AS lsn");
        const hasAll = `SELECT pg_last_wal_replay_lsn() >= '${row!["lsn"]}' AS yes`;
        await expect.poll(async () => (await ask(hasAll))[0]!["yes"], { timeout: PATIENCE_MS }).toBe(true);
        await ask("ALTER SYSTEM SET primary_conninfo = ''");
        await ask("SELECT pg_reload_conf()");
        const receivers = async () => (await ask("SELECT pid FROM pg_stat_wal_receiver")).length;
        await expect.poll(receivers, { timeout: PATIENCE_MS }).toBe(0);
      },
      async promote() {
        await ask("SELECT pg_promote()");
        await primary().process.replaceBy(standby);
      },
    };
  }

  test("with the last commits: nodes continue", async () => {
    const { url } = await primary().makeDatabase();
    const store = await openNode(url);
    const floor = new FloorWriter(store);
    await floor.write();
    const standby = await follow();
    await floor.write();
    await standby.detach();
    await standby.promote();
    await expect.poll(() => floor.write().catch(() => undefined), { timeout: PATIENCE_MS }).toBe("committed");
    expect(store.isReplaced).toBe(false);
    // A node that was there has seen that nothing is missing, so that another one starts.
    expect((await openNode(url)).epoch).toBe(store.epoch);
  });

  test("without the last commits: every node refuses it, also one that lost none and one that starts, until it has a new epoch", async () => {
    const { url } = await primary().makeDatabase();
    const [losing, other] = [await openNode(url), await openNode(url)];
    await new FloorWriter(other, "u:bob").write();
    const floor = new FloorWriter(losing);
    await floor.write();
    const standby = await follow();
    await standby.detach();
    await floor.write();
    await standby.promote();
    for (const store of [losing, other]) {
      const load = () => store.loadFloor(floor.id).catch(({ cause }) => String(cause.message ?? cause));
      await expect.poll(load, { timeout: PATIENCE_MS }).toContain("it lacks commits that were acknowledged");
      await expect(store.timeOffset()).rejects.toMatchObject({ code: "unavailable" });
      expect(store.isReplaced).toBe(true);
    }
    await expect(openNode(url)).rejects.toThrow("it lacks commits that were acknowledged");
    await askDatabase(url, "UPDATE interlock.meta SET epoch = 'r1'");
    expect((await openNode(url)).epoch).toBe("r1");
  });

  test("while no node ran: a node that starts refuses it until it has a new epoch, or gives it one, and starts after that", async () => {
    const { url } = await primary().makeDatabase();
    const before = await openNode(url);
    await new FloorWriter(before).write();
    const standby = await follow();
    await standby.detach();
    await before.close();
    await standby.promote();
    const open = () => openNode(url).catch(String);
    await expect.poll(open, { timeout: PATIENCE_MS }).toContain("was promoted, or restored, while no node ran");
    const { epoch } = await openNode(url, { lostCommits: "new-epoch" });
    expect(epoch).not.toBe(before.epoch);
    expect((await openNode(url)).epoch).toBe(epoch);
  });

  test("without the last commits, where the operator wants it: the node starts again with a new epoch, and its readers begin anew", async () => {
    const { url } = await primary().makeDatabase();
    const settings = { INTERLOCK_STORE: url, INTERLOCK_LOST_COMMITS: "new-epoch" };
    const node = await (await makeInstallation({ agents: [{ name: "general" }] }, settings)).start();
    expect((await node.post("/session/create", { id: "a", userId: "ann" })).status).toBe(200);
    const standby = await follow();
    await standby.detach();
    expect((await node.post("/session/create", { id: "b", userId: "ann" })).status).toBe(200);
    const before = (await node.ask("GET", "/session/b")).body.position;
    await standby.promote();
    const seen = async () => {
      const { status, body } = await node.ask("GET", "/session/a").catch(() => ({ status: 0, body: undefined }));
      return status === 200 && body!.position.split(".")[0] !== before.split(".")[0];
    };
    await expect.poll(seen, { timeout: PATIENCE_MS }).toBe(true);
    expect(node.stdout).toContain("starts again within 7 s: the store has a new epoch, because it lacked commits");
    expect((await node.ask("GET", "/session/b")).status).toBe(404);
    const stream = await EventStream.open(`${node.url}/session/a/events?lastEventId=${before}`);
    await stream.until(({ events }) => events.some(({ type }) => type === "reset"));
    node.signal("SIGTERM");
    expect(await node.ended).toEqual({ code: 0, signal: null });
  });
});
