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

async function create(server: ChildServer, id: string, agentId: string, userId = id): Promise<SessionReader> {
  await ask(server, "/session/create", { id, agentId, userId });
  return await SessionReader.of(server, id);
}

/** The lease starts with the floor: the program is running by then. */
async function play(server: ChildServer, id: string): Promise<Player> {
  const player = await Player.start(server.url, id, LEASE_MS);
  await ask(server, `/session/${id}/activate`);
  return player;
}

/** The session's transitions that its reader has received. */
const moves = (reader: SessionReader, id: string) => reader.eventsOf(id, "session_transition").map(({ data }) => data);

test("a killed program's session releases the floor, and the music continues at its own volume", async () => {
  const installation = await makeInstallation({ agents: PLAYERS });
  const server = await installation.start();
  const music = await create(server, "song", "music", "ann");
  await play(server, "song");
  const prompt = await create(server, "turn-left", "prompt", "ann");
  const speaker = await play(server, "turn-left");
  await music.until(() => moves(music, "song").at(-1)?.to === "ducked.idle");
  await speaker.kill();
  await music.until(() => moves(music, "song").at(-1)?.to === "active.idle");
  await prompt.until(() => moves(prompt, "turn-left").at(-1)?.to === "paused");
  expect(moves(prompt, "turn-left").at(-1)).toMatchObject({ event: "yield", reason: "lease_expired" });
  expect(moves(music, "song").map(({ to }) => to)).toEqual(["active.idle", "ducked.idle", "active.idle"]);
});

test("after a kill of the node, programs that still send heartbeats keep their place", async () => {
  const installation = await makeInstallation({ agents: PLAYERS }, { PORT: String(await freePort()) });
  const first = await installation.start();
  const living = await create(first, "living", "music");
  await play(first, "living");
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
