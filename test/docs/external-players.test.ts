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
import { answersOf, difference, requestsOf } from "./shown.ts";

/** The commands and answers of the Chinese page are the same (`pages.test.ts`). */
const PAGE = "docs/use/external-players.md";
/** The address of the node on the page. */
const SHOWN_URL = "http://127.0.0.1:3000";
/** A lease of 5 s lapses within 7.5 s; on busy cores within four times that. */
const PATIENCE_MS = 30_000;

/** A node with the shipped catalogue of a car. */
const startCar = () => startShipped("car.yaml", onTestFinished);

test("the commands of the page answer as shown, in their order", async () => {
  const url = await startCar();
  const { blocks } = readPage(PAGE);
  let compared = 0;
  for (const [index, { info, text }] of blocks.entries()) {
    const asked = info === "sh" ? (requestsOf(text) ?? []) : [];
    const next = blocks[index + 1];
    if (asked[0]?.isStream) {
      const stream = await SseReader.open(asked[0].url.replace(SHOWN_URL, url));
      for (const [, type] of next!.text.matchAll(/"type":"(\w+)"/g)) expect((await stream.next()).type).toBe(type);
      compared += 1;
    } else if (next?.info === "json") {
      const shown = answersOf(next.text);
      expect(shown.length, text).toBe(asked.length);
      for (const [at, { url: address, method, headers, body }] of asked.entries()) {
        const ask = async () => {
          const request = { method, headers, ...(body !== undefined && { body }) };
          const answer = await (await fetch(address.replace(SHOWN_URL, url), request)).json();
          return difference(shown[at], answer) ?? "as shown";
        };
        // Reads are repeated, because their result may still change; writes are sent once.
        if (method === "GET") await expect.poll(ask, { timeout: PATIENCE_MS }).toBe("as shown");
        else expect(await ask(), address).toBe("as shown");
        compared += 1;
      }
    }
  }
  expect(compared).toBeGreaterThan(12);
});

testWith(
  ["curl", "bash"],
  "the player of the page follows its session, sends heartbeats, and loses its place when it is killed",
  async () => {
    const url = await startCar();
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
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
