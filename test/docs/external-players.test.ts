import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { SseReader } from "../support/clients/sse-reader.ts";
import { testWith } from "../support/programs/suites.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";
import { expectObedience, postTo } from "./obedience.ts";
import { readPage } from "./page.ts";
import { startShipped } from "./shipped-node.ts";
import { expectShown, SHOWN_URL } from "./shown.ts";

/** The commands and answers of the Chinese page are the same (`pages.test.ts`). */
const PAGE = "docs/use/external-players.md";
/** A lease of 5 s lapses within 7.5 s; on busy cores within four times that. */
const PATIENCE_MS = 30_000;

/** A node with the shipped catalogue of a car. */
const startCar = () => startShipped("car.yaml", onTestFinished);

test("the commands of the page answer as shown, in their order", async () => {
  expect(await expectShown(readPage(PAGE), await startCar(), PATIENCE_MS)).toBeGreaterThan(12);
});

testWith(
  ["curl", "bash"],
  "the player of the page follows its session, sends heartbeats, and loses its place when it is killed",
  async () => {
    const url = await startCar();
    const { folder } = await makeFolder(onTestFinished);
    const script = readPage(PAGE).blocks.find(({ info }) => info === "bash")!.text;
    const file = join(folder, "player.sh");
    await writeFile(file, script.replace(SHOWN_URL, url));
    const post = postTo(url);
    await post("/session/create", { id: "song", agentId: "music_agent", userId: "ann" });
    const player = spawn("bash", [file, "song"], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void player.kill("SIGKILL"));
    await expectObedience(player.stdout, post);
    const stream = await SseReader.open(`${url}/session/song/events`);
    player.kill("SIGKILL");
    const { data } = await stream.find(({ data }) => data["reason"] === "lease_expired");
    expect(data).toMatchObject({ from: "active.idle", to: "paused", event: "yield" });
  },
);
