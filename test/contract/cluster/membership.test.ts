import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { RedisMembership } from "../../../src/cluster/membership.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { connectTo } from "../../support/servers/redis-place.ts";
import { REDIS } from "../../support/servers/redis-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";

const LEASE_MS = 60_000;

describeWith([REDIS], "the members over Redis", (start) => {
  const server = serverOf(start);

  function open() {
    const client = connectTo(server().url);
    const epoch = randomUUID();
    const of = (nodeId: string, count = 256) =>
      new RedisMembership({ redis: client, epoch, nodeId, leaseMs: LEASE_MS, count });
    return { client, of, key: `${epoch}.members` };
  }

  test("members are all nodes that renewed within their lease, until they leave", async () => {
    const { of, client, key } = open();
    expect(await of("one").renew()).toEqual(["one"]);
    expect((await of("two").renew()).toSorted()).toEqual(["one", "two"]);
    await client.zadd(key, Date.now() - 1, "dead");
    expect((await of("one").renew()).toSorted()).toEqual(["one", "two"]);
    await of("two").leave();
    expect(await of("none").read()).toEqual(["one"]);
  });

  test("a member whose lease ends later than any lease can, because the server's clock was ahead, is no member", async () => {
    const { of, client, key } = open();
    await of("one").renew();
    await client.zadd(key, Date.now() + 3_600_000, "died-while-the-clock-was-ahead", 9e15, "stranger");
    expect(await of("one").renew()).toEqual(["one"]);
    // A node with such a lease that lives renews it.
    await client.zadd(key, Date.now() + 3_600_000, "two");
    expect((await of("two").renew()).toSorted()).toEqual(["one", "two"]);
    expect((await of("one").renew()).toSorted()).toEqual(["one", "two"]);
  });

  test("a node with another number of partitions is refused while there are members", async () => {
    const { of } = open();
    await of("one").renew();
    await expect(of("two", 128).renew()).rejects.toThrow("INTERLOCK_PARTITIONS is 128 here and 256 on the nodes");
    await of("one").leave();
    expect(await of("two", 128).renew()).toEqual(["two"]);
  });
});
