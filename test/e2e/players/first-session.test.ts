import { afterAll, expect, onTestFinished, test } from "vitest";
import type { Left } from "../../../src/cli/playing/player-machine.ts";
import { PlayerSession } from "../../../src/cli/playing/player-session.ts";
import { createClient } from "../../../src/client/interlock-client.ts";
import { E2E_AGENTS } from "../../support/catalogs/e2e-catalog.ts";
import { keysFile, writeTemporary } from "../../support/clients/callers.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const agents = [...E2E_AGENTS, { name: "player", priority: 10, adapter: { kind: "external" } }];
const node = await NodeUnderTest.start({ agents });
afterAll(() => node.stop());

/** A player that begins to play, and the session that it gets. `fetch`: the network to the node. */
function beginning(fetch: typeof globalThis.fetch = globalThis.fetch, agentId = "player") {
  const client = createClient({ baseUrl: node.url, fetch, delay: async () => {} });
  const userId = node.newUser();
  const orders: string[] = [];
  const faults: (string | undefined)[] = [];
  const player = {
    name: "mpv",
    title: undefined as string | undefined,
    pid: undefined,
    play: () => orders.push("play"),
    pause: () => orders.push("pause"),
    free() {},
    setLevel() {},
  };
  const begun = Promise.withResolvers<string>();
  const session = new PlayerSession(client, { agentId, userId }, player, {
    onState() {},
    onDenied() {},
    onFault: (error) => faults.push(error?.code),
    onLeft: (left: Left | undefined) => left?.sessionId !== undefined && begun.resolve(left.sessionId),
  });
  onTestFinished(() => session.leave());
  session.observe("playing");
  const list = async () => (await client.listSessions({ userId, includeArchived: true })).sessions;
  return { player, session, orders, faults, begun: begun.promise, list };
}

test("a session that has its player's name gets the title that the player says later", async () => {
  const { player, session, begun, list } = beginning();
  await begun;
  const titles = async () => (await list()).map(({ title }) => title);
  expect(await titles()).toEqual(["mpv"]);
  player.title = "song.wav";
  session.observe("playing");
  await expect.poll(titles).toEqual(["song.wav"]);
});

test("a player whose session is moved goes on in the session of the other floor, and begins none of its own", async () => {
  const { session, orders, faults, begun, list } = beginning();
  const from = await begun;
  const moved = await createClient({ baseUrl: node.url }).moveSession(from, "rear");
  session.observe("paused");
  const states = async () => (await list()).map(({ id, state }) => [id, state]).toSorted();
  const expected = [
    [from, "archived"],
    [moved.session.id, "paused"],
  ];
  await expect.poll(states).toEqual(expected.toSorted());
  await session.leave();
  expect((await list()).map(({ state }) => state)).toEqual(["archived", "archived"]);
  expect([orders, faults.filter((code) => code !== undefined)]).toEqual([[], []]);
});

/** A network that loses the first answers to a request for a session: one more than the client repeats it. */
function losing(onLost: (count: number) => void = () => {}): typeof fetch {
  let count = 0;
  return async (input, init) => {
    const answer = await fetch(input, init);
    if (!String(input).endsWith("/session/create") || count > 5) return answer;
    count += 1;
    onLost(count);
    throw new TypeError("the connection broke");
  };
}

test("a player whose session was made, but not answered, gets that session and no second one", async () => {
  const { player, begun, list } = beginning(losing(() => (player.title = "song.wav")));
  const sessionId = await begun;
  expect((await list()).map(({ id, state }) => [id, state])).toEqual([[sessionId, "active"]]);
});

test("a player that its user pauses before its session was answered gives back the floor", async () => {
  const { session, begun, list } = beginning(losing((count) => count === 5 && session.observe("paused")));
  await begun;
  await expect.poll(async () => (await list()).map(({ state }) => state)).toEqual(["paused"]);
});

const locked = await NodeUnderTest.start({
  agents,
  settings: {
    INTERLOCK_AUTH: `keys:${await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key: "k" }]), afterAll)}`,
  },
});
afterAll(() => locked.stop());

/** The network to a node where only Ann has a key. */
const presenting =
  (token: string): typeof fetch =>
  (input, init) => {
    const headers = { ...(init?.headers as Record<string, string>), Authorization: `Bearer ${token}` };
    return fetch(String(input).replace(node.url, locked.url), { ...init, headers });
  };

test.each([
  ["an unknown agent", "nobody", fetch, "agent_not_found"],
  ["a token that is wrong, or has expired", "player", presenting("wrong"), "unauthorized"],
  ["another user's token", "player", presenting("k"), "forbidden"],
])("%s is a fault while the player is there, and no decision", async (_, agentId, network, code) => {
  const { session, orders, faults, list } = beginning(network, agentId);
  await expect.poll(() => faults).toEqual([code]);
  await session.leave();
  expect(faults).toEqual([code, undefined]);
  expect([orders, code === "agent_not_found" ? await list() : []]).toEqual([[], []]);
});
