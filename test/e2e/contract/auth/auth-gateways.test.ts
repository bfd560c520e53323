import { beforeAll, expect, onTestFinished, test } from "vitest";
import { Caller, keyOf, keysFile, keysFor, writeTemporary } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";
import { describeWith } from "../../../support/programs/suites.ts";
import { atEndOfSuite } from "../../../support/runner/at-end-of-suite.ts";
import { POSTGRES } from "../../../support/servers/postgres-server.ts";
import { REDIS } from "../../../support/servers/redis-server.ts";
import { serverOf } from "../../../support/servers/shared-server.ts";

const [ANN, BOB] = [keyOf("ann"), keyOf("bob")];
/** A key that begins as an operator's. */
const EVA = keyOf("eva");
/** Owners who make no other requests, one for each try of the test that counts them. */
const COUNTED = ["cid", "dan", "eve"].map((owner) => ({ owner, key: keyOf(owner) }));

describeWith([POSTGRES, REDIS], "several gateways", (startPostgres, startRedis) => {
  const postgres = serverOf(startPostgres);
  const atEnd = atEndOfSuite();
  let settings: Record<string, string>;
  let nodes: [NodeUnderTest, NodeUnderTest];

  beforeAll(async () => {
    const server = await startRedis();
    atEnd(() => server.stop());
    const { url, drop } = await postgres().makeDatabase();
    atEnd(drop);
    const people = [ANN, BOB, EVA].map((key) => ({ owner: key.slice(0, 3), key, operator: key === EVA }));
    const keys = await writeTemporary("keys.yaml", keysFile([...people, ...COUNTED]), atEnd);
    settings = {
      INTERLOCK_STORE: url,
      INTERLOCK_BUS: server.url,
      INTERLOCK_AUTH: `keys:${keys}`,
      INTERLOCK_RATE_LIMITS: "owner=20/1d,address=off,refused=off",
    };
    nodes = [await NodeUnderTest.start({ settings }), await NodeUnderTest.start({ settings })];
    atEnd(() => Promise.all(nodes.map((node) => node.stop())));
  });

  test("any gateway accepts a ticket that another issued, and all gateways together accept it once", async () => {
    const [here, there] = nodes;
    const ann = new Caller(here, ANN);
    const { session } = await accepted(ann.post("/session/create", { agentId: "chat", userId: "ann" }));
    const path = `/session/${session.id}/events?ticket=${(await ann.ticket()).ticket}`;
    expect((await (await there.stream(path)).next()).type).toBe("session_created");
    for (const node of nodes) expect((await refused(node.get(path))).errorCode).toBe("unauthorized");
    const hers = `/session/${session.id}/events?ticket=${(await new Caller(there, BOB).ticket()).ticket}`;
    expect((await refused(here.get(hers))).errorCode).toBe("session_not_found");
  });

  test("a ticket of a key that is no longer in the file, or has another role there, opens no stream at a restarted gateway", async () => {
    const [here] = nodes;
    const tickets: string[] = [];
    for (const key of [ANN, BOB, EVA]) tickets.push((await new Caller(here, key).ticket()).ticket);
    const keys = await keysFor(["bob", "eva"], onTestFinished);
    const restarted = await NodeUnderTest.start({ settings: { ...settings, INTERLOCK_AUTH: `keys:${keys}` } });
    onTestFinished(() => restarted.stop());
    const codes: string[] = [];
    for (const ticket of tickets) {
      codes.push((await refused(restarted.get(`/session/unknown/events?ticket=${ticket}`))).errorCode);
    }
    expect(codes).toEqual(["unauthorized", "session_not_found", "unauthorized"]);
  });

  test("any gateway resumes a connection, for its owner only", async () => {
    const [here, there] = nodes;
    const stream = await new Caller(here, ANN).stream("/events?userId=ann");
    const { connectionId } = (await stream.next()).data;
    await stream.find("agent_list");
    const position = stream.lastEventId!;
    await stream.close();
    const foreign = await new Caller(there, BOB).stream("/events", { "Last-Event-ID": position });
    expect((await foreign.next()).data["connectionId"]).not.toBe(connectionId);
    const own = await new Caller(there, ANN).stream("/events", { "Last-Event-ID": position });
    expect((await own.next()).data["connectionId"]).toBe(connectionId);
  });

  test("all gateways count an owner's requests together", async ({ task }) => {
    const { key } = COUNTED[task.result?.retryCount ?? 0]!;
    const [here, there] = nodes.map((node) => new Caller(node, key));
    let asked = 0;
    const statusAt = async (caller: Caller) => {
      asked += 1;
      return (await caller.get("/agents")).status;
    };
    // While counters that are slow count as away, all requests are admitted.
    await expect.poll(() => statusAt(here!), { interval: 1 }).toBe(429);
    expect(asked).toBeGreaterThan(20);
    asked = 0;
    await expect.poll(() => statusAt(there!), { interval: 250 }).toBe(429);
    expect(asked).toBeLessThanOrEqual(20);
  });
});
