import { expect, onTestFinished, test } from "vitest";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, printLogsOfFailures } from "../../support/nodes/cluster.ts";
import { clientOf, LOAD_CATALOG, Load } from "../../support/nodes/load.ts";
import { WatchedSession } from "../../support/nodes/watched-session.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { connectDatabase, smallPostgres } from "../../support/servers/postgres-server.ts";
import { REDIS_PROCESS } from "../../support/servers/redis-server.ts";

/** Room for the server's first files and the test's. */
const DISK_MIB = 160;
/** Longer than nodes take to find that one of them is cut off from the database: three leases. */
const FULL_MS = 3_000;
const LEASE = "500ms";

const linesOf = ({ log }: ChildServer, text: string): number => log.filter(({ msg }) => msg === text).length;

const TITLE = "a full disk of PostgreSQL";

describeWith([smallPostgres(DISK_MIB), REDIS_PROCESS], TITLE, (startDatabase, startRedis) => {
  printLogsOfFailures();

  test("fails commands and nothing else, also when PostgreSQL ends for want of room, and everything works when there is room", async () => {
    const database = await startDatabase();
    onTestFinished(() => database.stop());
    const bus = await startRedis();
    onTestFinished(() => bus.stop());
    const server = database.process;
    const cluster = await Cluster.make(
      { postgres: () => database, redis: () => bus },
      { catalog: LOAD_CATALOG, settings: { INTERLOCK_LEASE: LEASE } },
    );
    const nodes = await cluster.startAll(["gateway", "orchestrator", "worker"], ["gateway", "orchestrator", "worker"]);
    const client = clientOf(() => nodes);
    const watched = await WatchedSession.create(client, nodes);
    const load = new Load({ users: 4, clientsEach: 2, seed: 11, nodes: () => nodes });
    load.begin();
    await load.answered(5);

    const ask = async (method: string, path: string) => {
      const { status, body } = await nodes[0]!.ask(method, path);
      return `${status} ${body.errorCode ?? ""}`;
    };
    const read = () => ask("GET", watched.path);
    const isReady = () => Promise.all(nodes.map(async (node) => (await node.ask("GET", "/ready")).status));
    const failures = () => [...load.failures.values()].flat();

    const own = await connectDatabase(database.url);
    await server.fillDisk();
    await expect.poll(() => failures().length).toBeGreaterThan(20);
    for (const until = Date.now() + FULL_MS; Date.now() < until; ) {
      const answer = await read();
      expect(await isReady()).toEqual([200, 200]);
      // On a busy machine its log may be full already.
      if (server.isMounted && !server.hasPanicked) expect(answer).toBe("200 ");
    }
    if (server.isMounted) {
      const refusals = () => nodes.map((node) => linesOf(node, "the database refuses writes"));
      // All floors of the load may have the same owner, and the other node then writes nothing.
      await expect.poll(() => Math.max(...refusals())).toBe(1);
      // A server that refuses for want of room answers. One that gets no processor does not, which nodes say rightly.
      const isSilence = (line: ChildServer["log"][number]) =>
        line.msg === "the database does not answer statements" && !/timeout"/.test(JSON.stringify(line));
      const silences = nodes.flatMap(({ log }) => log.filter(isSilence).map((line) => JSON.stringify(line)));
      // What it says after its panic is another matter.
      if (!server.hasPanicked) expect(silences).toEqual([]);
    }

    // Another file of the write-ahead log finds no room: the server panics, and cannot recover. A file in which nothing
    // was written yet is not switched.
    const fillLog = "SELECT pg_logical_emit_message(false, 'test', 'more'), pg_switch_wal()";
    const isOver = () =>
      own.query(fillLog).then(
        () => server.hasEnded,
        () => server.hasEnded,
      );
    await expect.poll(isOver).toBe(true);
    await expect.poll(read).toBe("503 unavailable");
    for (const until = Date.now() + FULL_MS; Date.now() < until; ) expect(await isReady()).toEqual([200, 200]);
    for (const { stream } of watched.readers) expect(stream.ending).toBeUndefined();

    await server.freeDisk();
    const tookMs = await load.answered(1);
    console.info(`${server.isMounted ? "a mounted disk" : "a limit on files"}: answered again after ${tookMs} ms`);
    await load.answered(3);
    await load.end();
    expect(failures().filter((each) => !each.includes('"errorCode":"unavailable"'))).toEqual([]);
    for (const node of nodes) {
      expect(linesOf(node, "the database refuses writes")).toBeLessThan(2);
      expect(linesOf(node, "the database does not answer statements")).toBeLessThan(5);
      expect(linesOf(node, "followed floors could not be reconciled")).toBeLessThan(2);
    }
    await watched.rename(client);
    await load.audit(cluster, nodes);
  });
});
