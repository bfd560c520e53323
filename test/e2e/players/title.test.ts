import { expect, test } from "vitest";
import { PlayerSession } from "../../../src/cli/players/player-session.ts";
import { createClient } from "../../../src/client/interlock-client.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";

test("a session that has its player's name gets the title that the player says later", async () => {
  const agents = [{ name: "music", priority: 10, adapter: { kind: "external" } }];
  const node = await (await makeInstallation({ agents })).start();
  const client = createClient({ baseUrl: node.url });
  const player = {
    name: "mpv",
    title: undefined as string | undefined,
    pid: undefined,
    play() {},
    pause() {},
    setLevel() {},
  };
  const begun = Promise.withResolvers<string>();
  const session = new PlayerSession(client, "music", "ann", player, {
    onState() {},
    onDenied() {},
    onSession: (id) => id !== undefined && begun.resolve(id),
  });
  session.observe("playing");
  const sessionId = await begun.promise;
  const titleOf = async () => (await client.loadSession({ sessionId })).session.title;
  expect(await titleOf()).toBe("mpv");
  player.title = "song.wav";
  session.observe("playing");
  await expect.poll(titleOf).toBe("song.wav");
  await session.leave("the test is over");
});
