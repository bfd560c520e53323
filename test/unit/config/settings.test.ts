import { expect, it } from "vitest";
import { isLoopback } from "../../../src/config/network.ts";
import { SETTINGS, type Settings } from "../../../src/config/settings.ts";
import { settingFaultsOf as faultsOf, settingsOf } from "../../support/catalogs/settings.ts";

it("without any setting a node runs the embedded shape on loopback", () => {
  expect(settingsOf({ PATH: "/bin", HOME: "/root" })).toEqual({
    host: "127.0.0.1",
    port: 3000,
    configPath: "config/agents_config.yaml",
    store: { kind: "sqlite", file: "data/interlock.db" },
    lostCommits: "stop",
    bus: { kind: "memory" },
    name: expect.stringMatching(new RegExp(`^[\\x21-\\x7e]+:${process.pid}$`)),
    roles: ["gateway", "orchestrator", "worker"],
    partitions: 256,
    leaseMs: 3_000,
    auth: "none",
    issuer: undefined,
    audience: undefined,
    rateLimits: {},
    proxies: [],
    addressConnections: 2_048,
    origins: [],
    hosts: [],
    maxBodyBytes: 10_485_760,
    commandDeadlineMs: 5_000,
    drainMs: 5_000,
    interactionTimeoutMs: 300_000,
    retentionMs: undefined,
    maxHeld: 256,
    holdTimeoutMs: 300_000,
    logLevel: "info",
  });
});

it("an empty variable counts as unset", () => {
  expect(settingsOf({ PORT: "", INTERLOCK_ORIGINS: "", INTERLOCK_RETENTION: "" })).toEqual(settingsOf({}));
});

it("the table's defaults describe what a node does without the settings", () => {
  const unset = /CONFIG|WEBHOOKS|NAME|LOST_COMMITS|ISSUER|AUDIENCE|RATE_LIMITS|PROXIES|ORIGINS|HOSTS|RETENTION/;
  const spelt = SETTINGS.filter(({ name }) => !unset.test(name)).map((row) => [row.name, row.default]);
  expect(settingsOf(Object.fromEntries(spelt))).toEqual(settingsOf({}));
});

it.each<[string, string, string, Partial<Settings>]>([
  ["HOST", "--host", "::1", { host: "::1" }],
  ["PORT", "--port", "0", { port: 0 }],
  ["INTERLOCK_CONFIG", "--config", "/etc/agents.yaml", { configPath: "/etc/agents.yaml" }],
  ["INTERLOCK_STORE", "--store", "sqlite::memory:", { store: { kind: "sqlite", file: ":memory:" } }],
  ["INTERLOCK_STORE", "--store", "sqlite:/var/lib/a.db", { store: { kind: "sqlite", file: "/var/lib/a.db" } }],
  [
    "INTERLOCK_STORE",
    "--store",
    "postgres://ann:secret@db:5432/interlock",
    { store: { kind: "postgres", url: "postgres://ann:secret@db:5432/interlock" } },
  ],
  ["INTERLOCK_NAME", "--name", "front-1", { name: "front-1" }],
  ["INTERLOCK_ROLES", "--roles", "worker, gateway,orchestrator", {}],
  ["INTERLOCK_PARTITIONS", "--partitions", "16", { partitions: 16 }],
  ["INTERLOCK_LEASE", "--lease", "10s", { leaseMs: 10_000 }],
  [
    "INTERLOCK_ORIGINS",
    "--origins",
    "https://a.example, http://b:81/",
    { origins: ["https://a.example", "http://b:81"] },
  ],
  ["INTERLOCK_HOSTS", "--hosts", "Car.local,10.0.0.2", { hosts: ["car.local", "10.0.0.2"] }],
  ["INTERLOCK_MAX_BODY", "--max-body", "512KiB", { maxBodyBytes: 524_288 }],
  ["INTERLOCK_COMMAND_DEADLINE", "--command-deadline", "800ms", { commandDeadlineMs: 800 }],
  ["INTERLOCK_DRAIN", "--drain", "0ms", { drainMs: 0 }],
  ["INTERLOCK_INTERACTION_TIMEOUT", "--interaction-timeout", "1h", { interactionTimeoutMs: 3_600_000 }],
  ["INTERLOCK_RETENTION", "--retention", "30d", { retentionMs: 2_592_000_000 }],
  ["INTERLOCK_MAX_HELD", "--max-held", "0", { maxHeld: 0 }],
  ["INTERLOCK_HOLD_TIMEOUT", "--hold-timeout", "90s", { holdTimeoutMs: 90_000 }],
  ["LOG_LEVEL", "--log-level", "debug", { logLevel: "debug" }],
])("the setting %s or %s may be %s", (name, flag, text, settings) => {
  expect(settingsOf({ [name]: text })).toEqual({ ...settingsOf({}), ...settings });
  expect(settingsOf({}, [flag, text])).toEqual({ ...settingsOf({}), ...settings });
  expect(settingsOf({}, [`${flag}=${text}`])).toEqual({ ...settingsOf({}), ...settings });
});

it("a variable and its flag may both be given, and the flag takes precedence", () => {
  expect(settingsOf({ PORT: "4000" }, ["--port", "5000"]).port).toBe(5000);
  expect(settingsOf({ PORT: "no number" }, ["--port", "5000"]).port).toBe(5000);
});

it.each([
  ["HOST", "127.0.0.1:3000", "must be an IP address or a host name, without a port"],
  ["PORT", "65536", "must be a whole number from 0 to 65535"],
  ["PORT", "3e3", "must be a whole number from 0 to 65535"],
  [
    "INTERLOCK_STORE",
    "sqlite:",
    "must be sqlite:<file>, sqlite::memory: or postgres://user:password@host:port/database",
  ],
  ["INTERLOCK_STORE", "sqlite:///a.db", "must be sqlite:<file>, sqlite::memory: or postgres://"],
  ["INTERLOCK_STORE", "mysql://a", "must be sqlite:<file>, sqlite::memory: or postgres://"],
  ["INTERLOCK_BUS", "redis://a,nats://b", "entry 2 is not"],
  ["INTERLOCK_BUS", "kafka", 'must be "memory", or redis://host:port'],
  ["INTERLOCK_ROLES", "gateway,driver", "must be some of gateway,orchestrator,worker"],
  ["INTERLOCK_ROLES", ",", "must be some of gateway,orchestrator,worker"],
  ["INTERLOCK_PARTITIONS", "257", "must be a whole number from 1 to 256"],
  ["INTERLOCK_LEASE", "10ms", "must be at least 500ms"],
  ["INTERLOCK_ORIGINS", "https://a.example,*", "entry 2 is not"],
  ["INTERLOCK_ORIGINS", "https://a.example/page", "must be origins, as in https://app.example.com"],
  ["INTERLOCK_ORIGINS", Array(65).fill("http://a").join(), "must have at most 64 entries"],
  ["INTERLOCK_HOSTS", "car.local:80", "must be host names without a port"],
  ["INTERLOCK_MAX_BODY", "2MB", "must be a size: a whole number and B, KiB, MiB or GiB, as in 2MiB"],
  ["INTERLOCK_MAX_BODY", "1GiB", "must be at most 64MiB"],
  ["INTERLOCK_MAX_BODY", "1B", "must be at least 1KiB"],
  ["INTERLOCK_COMMAND_DEADLINE", "5", "must be a duration"],
  ["INTERLOCK_COMMAND_DEADLINE", "0s", "must be at least 10ms"],
  ["INTERLOCK_DRAIN", "1d", "must be at most 10m"],
  ["INTERLOCK_MAX_HELD", "-1", "must be a whole number from 0 to 100000"],
  ["LOG_LEVEL", "loud", 'must be fatal, error, warn, info, debug, trace or silent, not the text "loud"'],
])("an invalid value is a fault of %s: %s", (name, text, message) => {
  expect(faultsOf({ [name]: text })).toEqual([expect.stringContaining(`${name}: `)]);
  expect(faultsOf({ [name]: text })[0]).toContain(message);
});

it.each([
  ["INTERLOCK_STORE", "postgres://user:secret@:x/y"],
  ["INTERLOCK_BUS", "redis://:secret@a b"],
  ["INTERLOCK_AUTH", "jwt:https://user:secret@keys/"],
])("an invalid value is never repeated, since it may contain a password: %s", (name, text) => {
  expect(faultsOf({ [name]: text })).toEqual([expect.not.stringContaining("secret")]);
});

const redis = { INTERLOCK_BUS: "redis://cache" };
const postgres = { INTERLOCK_STORE: "postgres://db/x" };

it("what PostgreSQL's nodes do about lost commits has no effect with SQLite", () => {
  const lost = { INTERLOCK_LOST_COMMITS: "new-epoch" };
  const fault = "INTERLOCK_LOST_COMMITS: has no effect without INTERLOCK_STORE=postgres://…";
  expect(faultsOf(lost)).toEqual([fault]);
  expect(settingsOf({ ...postgres, ...lost }).lostCommits).toBe("new-epoch");
});

const LEAVES = "^INTERLOCK_ROLES: leaves work to other nodes.* set ";
it.each<[what: string, env: Record<string, string>, fault: string]>([
  ["SQLite and a bus of several nodes", redis, "^INTERLOCK_BUS: cannot be Redis while the store is SQLite"],
  ["some roles and no bus", { INTERLOCK_ROLES: "gateway" }, `${LEAVES}INTERLOCK_STORE=.* and INTERLOCK_BUS=`],
  ["some roles and PostgreSQL", { ...postgres, INTERLOCK_ROLES: "gateway,worker" }, `${LEAVES}INTERLOCK_BUS=`],
])("%s are a fault together", (_, env, fault) => {
  expect(faultsOf(env)).toEqual([expect.stringMatching(fault)]);
});

it("one node on PostgreSQL, and any roles with Redis, are valid combinations", () => {
  expect(settingsOf(postgres).roles).toHaveLength(3);
  const { bus, roles } = settingsOf({
    ...postgres,
    INTERLOCK_BUS: "redis://a,rediss://:pw@b:1",
    INTERLOCK_ROLES: "worker",
  });
  expect(bus).toEqual({ kind: "redis", urls: ["redis://a", "rediss://:pw@b:1"] });
  expect(roles).toEqual(["worker"]);
});

it("a public address is refused without authentication", () => {
  const fault = "must be loopback while INTERLOCK_AUTH is none: all clients that can reach 0.0.0.0 would be admitted";
  expect(faultsOf({ HOST: "0.0.0.0" })).toEqual([`HOST: ${fault}`]);
  expect(faultsOf({}, ["--host", "0.0.0.0", "--auth", "none"])).toEqual([`--host (HOST): ${fault}`]);
});

it.each(["127.0.0.1", "127.8.8.8", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "localhost", "LocalHost"])(
  "an address that is not public: %s",
  (address) => {
    expect(isLoopback(address)).toBe(true);
    expect(settingsOf({ HOST: address }).host).toBe(address);
  },
);

it.each(["0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "::ffff:10.0.0.1", "fe80::1", "localhost.example", "car"])(
  "an address that is public: %s",
  (address) => {
    expect(isLoopback(address)).toBe(false);
    expect(faultsOf({ HOST: address })).toHaveLength(1);
  },
);

it("the mark of a program that an agent started is not a fault, since such a program may be a node", () => {
  expect(faultsOf({ INTERLOCK_RUN: "12-34-56.abc.1." })).toEqual([]);
});

it("an unknown variable that begins with INTERLOCK_, an unknown flag, and a word in between are faults", () => {
  expect(faultsOf({ INTERLOCK_STOER: "x", INTERLOCK_LAESE: "3s", PORTS: "1" }, ["--prot", "1", "x", "-p"])).toEqual([
    "--prot: is not a flag; did you mean --port?",
    "x: is not understood: settings are given as --flag value",
    "-p: is not understood: settings are given as --flag value",
    "INTERLOCK_LAESE: is not a setting of this version; did you mean INTERLOCK_LEASE?",
    "INTERLOCK_STOER: is not a setting of this version; did you mean INTERLOCK_STORE?",
  ]);
  expect(faultsOf({ INTERLOCK_COLOUR: "red" }, ["--colour", "red"])).toEqual([
    "--colour: is not a flag",
    "INTERLOCK_COLOUR: is not a setting of this version",
  ]);
});

it("the beginning of one setting's name suggests that setting, and the beginning of several suggests none", () => {
  expect(faultsOf({ INTERLOCK_LOG: "warn", INTERLOCK_MAX: "1" })).toEqual([
    "INTERLOCK_LOG: is not a setting of this version; did you mean INTERLOCK_LOG_LEVEL?",
    "INTERLOCK_MAX: is not a setting of this version",
  ]);
});

it("HOST, PORT and LOG_LEVEL may have the prefix INTERLOCK_, and then override those without it", () => {
  const env = { PORT: "1", INTERLOCK_PORT: "4000", INTERLOCK_HOST: "::1", INTERLOCK_LOG_LEVEL: "warn" };
  expect(settingsOf(env)).toMatchObject({ port: 4_000, host: "::1", logLevel: "warn" });
  expect(settingsOf({ ...env, INTERLOCK_PORT: "" })).toMatchObject({ port: 1 });
  expect(settingsOf(env, ["--port", "5000"])).toMatchObject({ port: 5_000 });
  expect(faultsOf({ INTERLOCK_PORT: "many" })).toEqual(["PORT: must be a whole number from 0 to 65535"]);
});

it("the tokens that other commands use are not faults", () => {
  const env = { INTERLOCK_TOKEN: "secret", INTERLOCK_TOKEN_FILE: "token", INTERLOCK_INSPECT_TOKEN: "secret" };
  expect(settingsOf(env)).toEqual(settingsOf({}));
});

it("the variables that Kubernetes sets for a service called interlock are not faults", () => {
  const env = {
    INTERLOCK_PORT: "tcp://10.0.0.1:3000",
    INTERLOCK_SERVICE_HOST: "10.0.0.1",
    INTERLOCK_SERVICE_PORT: "3000",
    INTERLOCK_SERVICE_PORT_HTTP: "3000",
    INTERLOCK_PORT_3000_TCP: "tcp://10.0.0.1:3000",
    INTERLOCK_PORT_3000_TCP_ADDR: "10.0.0.1",
    INTERLOCK_GATEWAY_SERVICE_HOST: "10.0.0.2",
    INTERLOCK_GATEWAY_PORT_80_TCP_PROTO: "tcp",
  };
  expect(settingsOf(env)).toEqual(settingsOf({}));
});

it("the name of a property that every object has is an unknown flag", () => {
  expect(faultsOf({}, ["--constructor", "1"])).toEqual([expect.stringContaining("--constructor: is not a flag")]);
});

it("a flag needs a value, and may be given only once", () => {
  for (const flags of [["--port"], ["--port="], ["--port", "--host", "::1"]]) {
    expect(faultsOf({}, flags)).toEqual(["--port: needs a value"]);
  }
  expect(faultsOf({}, ["--port", "1", "--port=2"])).toEqual(["--port: is given twice"]);
});

it("all faults are reported at once, each with its name", () => {
  const env = { HOST: "0.0.0.0", PORT: "x", INTERLOCK_BUS: "nats://x", INTERLOCK_NOPE: "1", LOG_LEVEL: "loud" };
  expect(faultsOf(env, ["--drain", "soon", "--nope=1"]).map((fault) => fault.split(": ", 1)[0])).toEqual([
    "--nope",
    "INTERLOCK_NOPE",
    "PORT",
    "INTERLOCK_BUS",
    "--drain (INTERLOCK_DRAIN)",
    "LOG_LEVEL",
    "HOST",
  ]);
});
