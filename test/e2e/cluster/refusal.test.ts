import { connect, createServer } from "node:net";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, type ClusterServers, describeClusters } from "../../support/nodes/cluster.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { within } from "../../support/runner/within.ts";
import { freePort } from "../../support/servers/free-port.ts";

const SECRET = "hunter2-hunter2";

const withPassword = (address: string, password: string) => {
  const url = new URL(address);
  url.password = password;
  return url.href;
};

type SettingsOf = (servers: ClusterServers, atEnd: ReturnType<typeof atEndOfSuite>) => Promise<Record<string, string>>;

/**
 * Settings that contradict each other or that cannot be met, and their error on stderr: one sentence that names the
 * setting.
 */
const CASES: [name: string, settings: SettingsOf, says: RegExp][] = [
  [
    "an unreachable PostgreSQL",
    async () => ({ INTERLOCK_STORE: `postgres://ann:${SECRET}@127.0.0.1:${await freePort()}/floors` }),
    /^interlock: .*127\.0\.0\.1:\d+ \(INTERLOCK_STORE\).*ECONNREFUSED.*$/,
  ],
  [
    "a wrong password",
    async ({ postgres }) => ({ INTERLOCK_STORE: withPassword(postgres().url, SECRET) }),
    /^interlock: .*127\.0\.0\.1:\d+ does not let the user "postgres" in: .*INTERLOCK_STORE$/,
  ],
  [
    "a database that is not there",
    async ({ postgres }) => ({ INTERLOCK_STORE: new URL("/nowhere", postgres().url).href }),
    /^interlock: there is no database "nowhere" at 127\.0\.0\.1:\d+: .*INTERLOCK_STORE$/,
  ],
  [
    "an unreachable Redis",
    async () => ({ INTERLOCK_BUS: `redis://:${SECRET}@127.0.0.1:${await freePort()}` }),
    /^interlock: INTERLOCK_BUS: redis:\/\/127\.0\.0\.1:\d+ cannot be used: .*ECONNREFUSED.*$/,
  ],
  [
    "a Redis that wants another password",
    async ({ startRedis }, atEnd) => {
      const guarded = await startRedis({ password: "another" });
      atEnd(() => guarded.stop());
      return { INTERLOCK_BUS: withPassword(guarded.url, SECRET) };
    },
    /^interlock: INTERLOCK_BUS: redis:\/\/127\.0\.0\.1:\d+ cannot be used: .*WRONGPASS.*$/,
  ],
  [
    "a gateway without Redis",
    async () => ({ INTERLOCK_BUS: "memory", INTERLOCK_ROLES: "gateway" }),
    /^interlock: the settings cannot be used\n {2}INTERLOCK_ROLES leaves work to other nodes, .+ INTERLOCK_BUS=redis:\/\/….*\nSee interlock serve --help\.$/,
  ],
  [
    "a SQLite file with Redis",
    async () => ({ INTERLOCK_STORE: "sqlite:floors.db" }),
    /^interlock: the settings cannot be used\n {2}INTERLOCK_BUS cannot be Redis while the store is SQLite: .+\nSee interlock serve --help\.$/,
  ],
];

describeClusters("the start of a node in a cluster", (servers) => {
  async function refusalOf(node: ChildServer): Promise<string> {
    await within("refusing to start", node.ended);
    expect(await node.ended).toEqual({ code: 1, signal: null });
    expect(node.stderr).not.toContain(SECRET);
    // Without the line of the log that says that the start waits.
    return node.stderr.replace(/^\{.*\n/gm, "").trim();
  }

  const atEnd = atEndOfSuite();
  const refused = new Map<string, ChildServer>();
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.make(servers, { catalog: { agents: [{ name: "general" }] }, atEnd });
    const roles = ["gateway", "orchestrator", "worker"] as const;
    // All at once, because most of their time they wait.
    for (const [name, settingsOf] of CASES) refused.set(name, cluster.begin(roles, await settingsOf(servers, atEnd)));
  });

  test.each(CASES)("a node does not start with %s", async (name, _, says) => {
    const said = await refusalOf(refused.get(name)!);
    expect(said).toMatch(says);
  });

  test("a node waits for a database and a Redis that answer only later, and says so once for each", async () => {
    const { url: postgres } = servers.postgres();
    const { url: bus } = servers.redis();
    /** The address at which this server answers once `open` is called. */
    const later = async (address: string) => {
      const url = new URL(address);
      const { hostname, port } = url;
      const proxy = createServer((client) => {
        const upstream = connect(Number(port), hostname);
        client.pipe(upstream).pipe(client);
        for (const socket of [client, upstream]) socket.on("error", () => {});
      });
      const free = await freePort();
      url.hostname = "127.0.0.1";
      url.port = String(free);
      onTestFinished(() => void proxy.close());
      return { url: url.href, open: () => proxy.listen(free, "127.0.0.1") };
    };
    const [database, redis] = [await later(postgres), await later(bus)];
    const node = cluster.begin(["gateway", "orchestrator", "worker"], {
      INTERLOCK_STORE: database.url,
      INTERLOCK_BUS: redis.url,
      LOG_LEVEL: "warn",
    });
    const waits = () => node.log.filter(({ msg }) => msg === "a server does not answer; the start waits for it");
    await expect.poll(() => waits().length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    database.open();
    await expect.poll(() => waits().length).toBe(2);
    redis.open();
    await node.listening();
    expect(waits()).toHaveLength(2);
    node.signal("SIGTERM");
    expect(await node.ended).toEqual({ code: 0, signal: null });
  });

  test("a node with another number of partitions than the running nodes is refused; one with the same number is accepted", async () => {
    const roles = ["gateway", "orchestrator"] as const;
    const first = await cluster.start(roles, { INTERLOCK_PARTITIONS: "64" });
    for (const role of ["orchestrator", "gateway", "worker"] as const) {
      const said = await refusalOf(cluster.begin([role], { INTERLOCK_PARTITIONS: "32" }));
      const remedy = "all nodes need the same number";
      expect(said).toBe(`interlock: INTERLOCK_PARTITIONS is 32 here and 64 on the nodes that are running: ${remedy}`);
    }
    const second = await cluster.start(roles, { INTERLOCK_PARTITIONS: "64" });
    for (const node of [first, second]) {
      expect((await node.post("/session/create", { userId: "ann" })).status).toBe(200);
    }
  });

  test("a node says that its database is new until it has had a session, so that a wrong address is seen", async () => {
    const cluster = await Cluster.make(servers, { catalog: { agents: [{ name: "general" }] } });
    const { host, pathname } = new URL(cluster.storeUrl);
    const storeOf = ({ stdout }: ChildServer) => /^ {2}store +(.*)$/m.exec(stdout)?.[1];
    const roles = ["gateway", "orchestrator", "worker"] as const;
    const first = await cluster.start(roles);
    expect(storeOf(first)).toBe(`PostgreSQL at ${host}${pathname} (new: it has no sessions)`);
    expect((await first.post("/session/create", { userId: "ann" })).status).toBe(200);
    expect(storeOf(await cluster.start(roles))).toBe(`PostgreSQL at ${host}${pathname}`);
  });
});
