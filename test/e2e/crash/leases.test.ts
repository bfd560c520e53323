import { expect, test } from "vitest";
import { create } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { Player } from "../../support/nodes/player.ts";
import { PLAYERS } from "../../support/nodes/players.ts";
import { freePort } from "../../support/servers/free-port.ts";

const LEASE_MS = 2_000;

/** A session that does not ask for its floor, and its reader. */
async function createIdle(server: ChildServer, id: string): Promise<SessionReader> {
  await create(server, id, "music", { activate: false });
  return await SessionReader.of(server, id);
}

const activate = async (server: ChildServer, id: string) =>
  expect((await server.post(`/session/${id}/activate`)).status, id).toBe(200);

/** The session's transitions that its reader has received. */
const moves = (reader: SessionReader, id: string) => reader.eventsOf(id, "session_transition").map(({ data }) => data);

test("after a kill of the node, programs that still send heartbeats keep their place", async () => {
  const installation = await makeInstallation({ agents: PLAYERS }, { PORT: String(await freePort()) });
  const first = await installation.start();
  const living = await createIdle(first, "living");
  // The lease starts with the floor: the program is running by then.
  await Player.start(first.url, "living", LEASE_MS);
  await activate(first, "living");
  const dead = await createIdle(first, "dead");
  await activate(first, "dead");
  await first.kill();
  const second = await installation.start();
  expect(second.url).toBe(first.url);
  for (const reader of [living, dead]) await reader.open();
  await dead.until(() => moves(dead, "dead").at(-1)?.to === "paused");
  expect(moves(dead, "dead").at(-1)).toMatchObject({ reason: "lease_expired" });
  expect((await second.ask("GET", "/session/living")).body.session.state).toBe("active");
  expect(moves(living, "living")).toHaveLength(1);
});
