import { expect, test } from "vitest";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { Player } from "../../support/nodes/player.ts";
import { PLAYERS } from "../../support/nodes/players.ts";
import { freePort } from "../../support/servers/free-port.ts";

const LEASE_MS = 2_000;

async function ask(server: ChildServer, path: string, body?: object): Promise<void> {
  const { status } = await server.post(path, body);
  expect(status, path).toBe(200);
}

async function create(server: ChildServer, id: string, agentId: string): Promise<SessionReader> {
  await ask(server, "/session/create", { id, agentId, userId: id });
  return await SessionReader.of(server, id);
}

/** The session's transitions that its reader has received. */
const moves = (reader: SessionReader, id: string) => reader.eventsOf(id, "session_transition").map(({ data }) => data);

test("after a kill of the node, programs that still send heartbeats keep their place", async () => {
  const installation = await makeInstallation({ agents: PLAYERS }, { PORT: String(await freePort()) });
  const first = await installation.start();
  const living = await create(first, "living", "music");
  // The lease starts with the floor: the program is running by then.
  await Player.start(first.url, "living", LEASE_MS);
  await ask(first, "/session/living/activate");
  const dead = await create(first, "dead", "music");
  await ask(first, "/session/dead/activate");
  await first.kill();
  const second = await installation.start();
  expect(second.url).toBe(first.url);
  for (const reader of [living, dead]) await reader.open();
  await dead.until(() => moves(dead, "dead").at(-1)?.to === "paused");
  expect(moves(dead, "dead").at(-1)).toMatchObject({ reason: "lease_expired" });
  expect((await second.ask("GET", "/session/living")).body.session.state).toBe("active");
  expect(moves(living, "living")).toHaveLength(1);
});
