import { chown, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { readiness } from "../../support/clients/node-client.ts";
import { Cluster, printLogsOfFailures } from "../../support/nodes/cluster.ts";
import { clientOf, LOAD_CATALOG, Load } from "../../support/nodes/load.ts";
import { WatchedSession } from "../../support/nodes/watched-session.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { type Certificate, makeCertificate } from "../../support/servers/certificate.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { startPgBouncer } from "../../support/servers/pgbouncer.ts";
import { askDatabase, POSTGRES, type SmallPostgres, smallPostgres } from "../../support/servers/postgres-server.ts";
import { REDIS_PROCESS } from "../../support/servers/redis-server.ts";
import { perTest, serverOf } from "../../support/servers/shared-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const PASSWORD = "open%sesame";
const WATCHING = "keep watch";

async function openFolder(): Promise<string> {
  const { folder, remove } = await makeFolder();
  onTestFinished(remove);
  return folder;
}

/** The load goes on during a change. Afterwards each client is answered, and nothing acknowledged is lost. */
async function expectToGoOn(cluster: Cluster, change: () => Promise<void>): Promise<void> {
  const [here, there] = await cluster.startAll(["gateway", "orchestrator"], ["gateway", "orchestrator"], ["worker"]);
  const nodes = [here, there];
  const client = clientOf(() => nodes);
  const watched = await WatchedSession.create(client, nodes);
  const load = new Load({ users: 3, clientsEach: 2, seed: 5, nodes: () => nodes });
  load.begin();
  await load.answered(4);
  await change();
  const tookMs = await load.answered(1);
  console.info(`every client was answered again ${tookMs} ms after the change`);
  await load.answered(3);
  for (const node of nodes) await expect.poll(() => readiness(node)).toEqual([200, []]);
  await load.end();
  const failures = [...load.failures.values()].flat();
  expect(failures.filter((each) => !each.includes('"errorCode":"unavailable"'))).toEqual([]);
  await watched.rename(client);
  await load.audit(cluster, nodes);
}

describeWith(
  [POSTGRES, REDIS_PROCESS, "sentinel", "openssl"],
  "Redis over TLS, behind Sentinels",
  (startPostgres, startRedis, _sentinel, openssl) => {
    const postgres = serverOf(startPostgres);
    const startOne = perTest(startRedis);
    printLogsOfFailures();

    test("nodes follow a failover to the replica by themselves, and nothing acknowledged is lost", async () => {
      const folder = await openFolder();
      const { keyFile, file } = await makeCertificate(openssl, folder);
      const files = `--tls-cert-file ${file} --tls-key-file ${keyFile} --tls-ca-cert-file ${file}`;
      const startOverTls = async (password: string, first: readonly string[], more: readonly string[] = []) => {
        const port = await freePort();
        const tls = `--tls-port ${port} --tls-auth-clients no --tls-replication yes ${files}`.split(" ");
        return { port, server: await startOne({ password, config: [...first, ...tls, ...more] }) };
      };
      const master = await startOverTls(PASSWORD, [], ["--masterauth", PASSWORD]);
      const following = ["--masterauth", PASSWORD, "--replicaof", "127.0.0.1", String(master.port)];
      const replica = await startOverTls(PASSWORD, [], following);
      const sentinels = await Promise.all(
        [1, 2, 3].map(async (number) => {
          const config = join(folder, `sentinel-${number}.conf`);
          const lines = [
            `monitor main 127.0.0.1 ${master.port} 2`,
            `auth-pass main ${PASSWORD}`,
            "down-after-milliseconds main 500",
            "failover-timeout main 5000",
            `sentinel-pass "${WATCHING}"`,
          ];
          await writeFile(config, lines.map((line) => `sentinel ${line}\n`).join(""));
          return startOverTls(WATCHING, [config, "--sentinel"]);
        }),
      );
      const watchers = sentinels.map(({ server }) => new Redis(server.url));
      onTestFinished(() => {
        for (const watcher of watchers) watcher.disconnect();
      });
      const knownTo = async (watcher: Redis) => {
        const facts = (await watcher.call("SENTINEL", "MASTER", "main")) as string[];
        return ["num-slaves", "num-other-sentinels"].map((name) => facts[facts.indexOf(name) + 1]);
      };
      for (const watcher of watchers) await expect.poll(() => knownTo(watcher)).toEqual(["1", "2"]);

      const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join();
      const secrets = `sentinel-password=${encodeURIComponent(WATCHING)}`;
      const url = `rediss+sentinel://:${encodeURIComponent(PASSWORD)}@${hosts}/main?${secrets}`;
      const cluster = await Cluster.make(
        { postgres, redis: () => master.server },
        { catalog: LOAD_CATALOG, settings: { INTERLOCK_BUS: url, NODE_EXTRA_CA_CERTS: file } },
      );
      const untrusting = cluster.begin(["gateway"], { NODE_EXTRA_CA_CERTS: "" });
      expect((await untrusting.ended).code).toBe(1);
      expect(untrusting.stderr).toContain("NODE_EXTRA_CA_CERTS names the authority");
      for (const secret of [PASSWORD, WATCHING]) expect(untrusting.stderr).not.toContain(secret);
      await expectToGoOn(cluster, async () => {
        await master.server.kill();
        const leader = () => watchers[0]!.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main");
        await expect.poll(leader).toEqual(["127.0.0.1", String(replica.port)]);
      });
    });
  },
);

describeWith(
  [smallPostgres(), REDIS_PROCESS, "openssl", "pgbouncer"],
  "PostgreSQL over TLS",
  (startPostgres, startRedis, openssl, pgbouncer) => {
    const startServer = perTest(startPostgres as () => Promise<SmallPostgres>);
    const redis = serverOf(startRedis);
    printLogsOfFailures();

    /** A server that takes connections with TLS alone, and an address to which the parameters of TLS are added. */
    async function startGuarded() {
      const certificate = await makeCertificate(openssl, await openFolder());
      const server = await startServer();
      await requireTls(server.url, certificate);
      const verified = (url: string, file = certificate.file) => `${url}?sslmode=verify-full&sslrootcert=${file}`;
      return { server, certificate, verified };
    }

    test("a node verifies the server's certificate with the authority of a file", async () => {
      const { server, verified } = await startGuarded();
      const other = await makeCertificate(openssl, await openFolder(), "other");
      const database = await server.makeDatabase();
      const url = verified(database.url);
      const makeDatabase = async () => ({ ...database, url });
      const cluster = await Cluster.make(
        { postgres: () => ({ ...server, makeDatabase }), redis },
        { catalog: LOAD_CATALOG },
      );
      const node = await cluster.start(["gateway", "orchestrator", "worker"]);
      expect((await node.post("/session/create", { id: "one", userId: "reader" })).status).toBe(200);
      const label = "application_name LIKE 'interlock%'";
      const used = await cluster.sql(
        `SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ${label}`,
      );
      expect(used).toEqual([{ ssl: true }]);
      const INTERLOCK_STORE = verified(database.url, other.file);
      const refused = cluster.begin(["gateway", "orchestrator", "worker"], { INTERLOCK_STORE });
      expect((await refused.ended).code).toBe(1);
      expect(refused.stderr).toContain("self-signed certificate");
    });

    test("behind PgBouncer nodes follow a switch to the synchronous standby, and nothing acknowledged is lost", async () => {
      const { server, certificate, verified } = await startGuarded();
      const database = await server.makeDatabase();
      const standby = await server.process.startStandby();
      onTestFinished(() => standby.stop());
      await askDatabase(server.url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
      await askDatabase(server.url, "SELECT pg_reload_conf()");
      const states = () => askDatabase(server.url, "SELECT sync_state FROM pg_stat_replication");
      await expect.poll(states).toEqual([{ sync_state: "sync" }]);
      const pooler = await startPgBouncer(pgbouncer, database.url, "session", certificate);
      const makeDatabase = async () => ({ url: verified(pooler.url), drop: async () => {} });
      const cluster = await Cluster.make(
        { postgres: () => ({ ...server, makeDatabase }), redis },
        { catalog: LOAD_CATALOG },
      );
      await expectToGoOn(cluster, async () => {
        await server.stop();
        await askDatabase(standby.url, "SELECT pg_promote()");
        await pooler.leadTo(standby.url);
      });
      const [meta] = await cluster.sql("SELECT lost, timeline FROM interlock.meta");
      expect([meta!["lost"], String(meta!["timeline"]).split(":")[1]]).toEqual([null, "00000002"]);
    });
  },
);

/** The files are where PostgreSQL looks for them by default. */
async function requireTls(url: string, { key, text }: Certificate): Promise<void> {
  const [row] = await askDatabase(url, "SHOW data_directory");
  const folder = String(row!["data_directory"]);
  const { uid, gid } = await stat(folder);
  for (const [name, pem] of [
    ["server.key", key],
    ["server.crt", text],
  ] as const) {
    const file = join(folder, name);
    await writeFile(file, pem, { mode: 0o600 });
    await chown(file, uid, gid);
  }
  await askDatabase(url, "ALTER SYSTEM SET ssl = on");
  await askDatabase(url, "SELECT pg_reload_conf()");
  await expect.poll(async () => (await askDatabase(url, "SHOW ssl"))[0]).toEqual({ ssl: "on" });
}
