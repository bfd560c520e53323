import { expect, onTestFinished, test } from "vitest";
import { SseReader } from "../../support/clients/sse-reader.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, type ClusterServers, describeClusters } from "../../support/nodes/cluster.ts";
import { TokenIssuer } from "../../support/servers/token-issuer.ts";

const CATALOG = { agents: [{ name: "chat", adapter: { kind: "scripted", replies: [{ say: ["hello"] }] } }] };

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const statusOf = async (node: ChildServer, token: string) =>
  (await fetch(`${node.url}/agents`, { headers: bearer(token) })).status;

async function ticketOf(node: ChildServer, token: string): Promise<string> {
  const response = await fetch(`${node.url}/ticket`, { method: "POST", headers: bearer(token) });
  expect(response.status).toBe(200);
  return ((await response.json()) as { ticket: string }).ticket;
}

async function open(node: ChildServer, path: string, headers: Record<string, string> = {}): Promise<SseReader> {
  const reader = await SseReader.open(`${node.url}${path}`, headers);
  onTestFinished(() => reader.close());
  return reader;
}

/** Gateways whose callers have tokens of an identity provider. */
async function stage(servers: ClusterServers) {
  const issuer = await TokenIssuer.start();
  onTestFinished(() => issuer[Symbol.asyncDispose]());
  const [old, next, newest] = [await issuer.makeKey(), await issuer.makeKey(), await issuer.makeKey()];
  issuer.publish(old, next);
  const settings = { INTERLOCK_AUTH: `jwt:${issuer.url}`, INTERLOCK_RATE_LIMITS: "off" };
  const cluster = await Cluster.make(servers, { catalog: CATALOG, settings });
  const [here, there] = await cluster.startAll(["gateway"], ["gateway"], ["orchestrator", "worker"]);
  const tokens = {
    ann: await issuer.sign(old, { sub: "ann" }),
    bob: await issuer.sign(next, { sub: "bob" }),
    cid: await issuer.sign(newest, { sub: "cid" }),
  };
  for (const node of [here, there]) {
    expect([await statusOf(node, tokens.ann), await statusOf(node, tokens.bob)]).toEqual([200, 200]);
  }
  const withdrawOld = () => issuer.publish(next, newest);
  const addNewest = () => issuer.publish(old, next, newest);
  return { issuer, cluster, here, there, tokens, withdrawOld, addNewest };
}

describeClusters("a key that the identity provider withdraws", (servers) => {
  test("a withdrawn key that one gateway meets ends its tokens and streams at every gateway; others continue", async () => {
    const { here, there, tokens, withdrawOld } = await stage(servers);
    const direct = await open(there, "/events", bearer(tokens.ann));
    const ticketed = await open(there, `/events?ticket=${await ticketOf(here, tokens.ann)}`);
    const lasting = await open(there, "/events", bearer(tokens.bob));
    const kept = await ticketOf(here, tokens.ann);
    withdrawOld();
    // This token's key is unknown, so the gateway reads the set.
    expect(await statusOf(here, tokens.cid)).toBe(200);
    for (const stream of [direct, ticketed]) {
      expect((await stream.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "token_expired" } });
    }
    for (const node of [here, there]) {
      expect(await statusOf(node, tokens.ann)).toBe(401);
      expect([await statusOf(node, tokens.bob), await statusOf(node, tokens.cid)]).toEqual([200, 200]);
    }
    expect((await open(there, `/events?ticket=${kept}`)).status).toBe(401);
    const made = await fetch(`${there.url}/session/create`, {
      method: "POST",
      headers: { ...bearer(tokens.bob), "Content-Type": "application/json" },
      body: JSON.stringify({ agentId: "chat" }),
    });
    const { session } = (await made.json()) as { session: { id: string } };
    expect((await lasting.find("session_created")).sessionId).toBe(session.id);
  });

  test("a withdrawn key opens no stream with its ticket at a gateway that started after the withdrawal", async () => {
    const { cluster, here, tokens, withdrawOld } = await stage(servers);
    const ticket = await ticketOf(here, tokens.ann);
    const other = await ticketOf(here, tokens.bob);
    withdrawOld();
    const late = await cluster.start(["gateway"]);
    expect((await open(late, `/events?ticket=${ticket}`)).status).toBe(401);
    expect((await open(late, `/events?ticket=${other}`)).status).toBe(200);
  });

  test("a ticket of a new key is redeemed at a gateway that has not met the key; one that cannot ask says so", async () => {
    const { issuer, cluster, here, tokens, addNewest } = await stage(servers);
    addNewest();
    issuer.isDown = true;
    const unaware = await cluster.start(["gateway"]);
    issuer.isDown = false;
    expect(await statusOf(here, tokens.cid)).toBe(200);
    const tickets = [await ticketOf(here, tokens.cid), await ticketOf(here, tokens.cid)];
    issuer.isDown = true;
    const away = await open(unaware, `/events?ticket=${tickets[0]}`);
    expect((await away.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
    issuer.isDown = false;
    expect((await open(unaware, `/events?ticket=${tickets[1]}`)).status).toBe(200);
  });
});
