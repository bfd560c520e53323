import { expect, test } from "vitest";
import { readRedisAddresses, unguardedServers } from "../../../src/bus/redis-address.ts";
import { isLoopback } from "../../../src/config/network.ts";

const read = (text: string) => readRedisAddresses([text])[0]!;

test("an address of Redis contains host, port and database", () => {
  const local = { host: "127.0.0.1", port: 7000, db: 3 };
  expect(read("redis://cache")).toEqual({ label: "redis://cache", options: { host: "cache", port: 6379, db: 0 } });
  expect(read("redis://127.0.0.1:7000/3")).toEqual({ label: "redis://127.0.0.1:7000/3", options: local });
  expect(read("redis://[::1]:7000/").options).toEqual({ host: "::1", port: 7000, db: 0 });
  expect(read("rediss://cache.example").options).toEqual({ host: "cache.example", port: 6379, db: 0, tls: {} });
});

test("an address of Redis may contain user and password, percent-encoded, and displays neither", () => {
  const { label, options } = read("redis://ann:p%40ss%2Fw%3Ard@cache:7000");
  expect(options).toMatchObject({ username: "ann", password: "p@ss/w:rd", host: "cache", port: 7000 });
  expect(label).toBe("redis://cache:7000");
  expect(read("redis://:secret@cache").options).toEqual({ password: "secret", host: "cache", port: 6379, db: 0 });
});

test("an address of Redis may list Sentinels and their master, each with its own credentials", () => {
  expect(read("redis+sentinel://:secret@one:7001,two/main/2?sentinel-password=other")).toEqual({
    label: "redis+sentinel://one:7001,two/main",
    options: {
      password: "secret",
      name: "main",
      db: 2,
      sentinels: [
        { host: "one", port: 7001 },
        { host: "two", port: 26379 },
      ],
      sentinelPassword: "other",
    },
  });
  expect(read("rediss+sentinel://one/main?sentinel-username=ann&sentinel-password=o%26k").options).toEqual({
    name: "main",
    db: 0,
    sentinels: [{ host: "one", port: 26379 }],
    sentinelUsername: "ann",
    sentinelPassword: "o&k",
    tls: {},
    sentinelTLS: {},
    enableTLSForSentinelMode: true,
  });
});

test.each([
  "",
  "cache:6379",
  "http://secret@cache",
  "redis://",
  "redis://secret@",
  "redis://secret@cache:0",
  "redis://secret@cache:65536",
  "redis://secret@cache:port",
  "redis://secret@cache/name",
  "redis://secret@cache/1/2",
  "redis://se/cret@cache",
  "redis://%zsecret@cache",
  "redis://secret@cache?family=6",
  "redis://one:7001,two:7002/0",
  "redis+sentinel://secret@one",
  "redis+sentinel://secret@one/main/0/more",
  "redis+sentinel://secret@one/main?password=secret",
])("an invalid address of Redis, %j, is refused in a sentence that names the setting and not its value", (text) => {
  expect(() => read(text)).toThrow(/^INTERLOCK_BUS: .+ 1 of 1 /);
  expect(() => read(text)).not.toThrow(/secret/);
});

test("nodes agree on the servers of several addresses of Redis, regardless of their order", () => {
  const labels = (urls: string[]) => readRedisAddresses(urls).map(({ label }) => label);
  expect(labels(["redis://b", "redis://:x@a"])).toEqual(["redis://a", "redis://b"]);
  expect(labels(["redis://:y@a", "redis://b"])).toEqual(["redis://a", "redis://b"]);
  expect(() => labels(["redis://a", "b"])).toThrow("address 2 of 2");
});

test.each([
  ["redis://cache", true],
  ["redis://ann@10.0.0.5:7000/3", true],
  ["rediss://cache.example.com", true],
  ["redis+sentinel://127.0.0.1,10.0.0.5/main?sentinel-password=other", true],
  ["redis://:secret@cache", false],
  ["redis://localhost", false],
  ["redis://127.0.0.2:7000", false],
  ["redis://[::1]", false],
  ["redis+sentinel://127.0.0.1,localhost:7001/main", false],
])("everybody on the network may use %s: %s", (url, isOpen) => {
  const addresses = readRedisAddresses([url, "redis://:secret@other"]);
  expect(unguardedServers(addresses, isLoopback)).toEqual(isOpen ? [read(url).label] : []);
});
