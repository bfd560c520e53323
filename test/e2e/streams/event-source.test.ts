import { expect, test } from "vitest";
import { create, headOf, say } from "../../support/clients/node-client.ts";
import { Page } from "../../support/clients/page.ts";
import { ShakyProxy } from "../../support/networks/shaky-proxy.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { Chance } from "../../support/runner/chance.ts";

const SONG = Array.from({ length: 60 }, (_, n) => `la${n} `);
const WHOLE = SONG.join("");
const sings = (delay: string) => ({ kind: "scripted", replies: [{ say: SONG, delay }] });
const CATALOG = {
  agents: [
    { name: "singer", priority: 20, adapter: sings("5ms") },
    { name: "slow", priority: 20, adapter: sings("30ms") },
    { name: "phone", priority: 90 },
  ],
};
const QUESTIONS = ["sing", "hello"];
/** Every message here is the song so far, a question, or the phone's answer. */
const mayBeSaid = (text: string) => WHOLE.startsWith(text) || QUESTIONS.includes(text) || text.startsWith("You said: ");
const ANN = { userId: "ann" };

const ended = (page: Page, sessionId: string, runId: string) => () =>
  page.logOf(sessionId).some(({ type, data }) => type === "complete" && data.runId === runId);

/** The whole log, each event once and in order. */
async function expectWhole(server: ChildServer, page: Page, sessionId: string): Promise<void> {
  const head = await headOf(server, sessionId);
  await page.until(() => page.transcript.seqOf(sessionId) >= head);
  expect(page.logOf(sessionId).map(({ seq }) => seq)).toEqual(Array.from({ length: head }, (_, n) => n + 1));
}

test("pages whose connections break continuously see each event once, in order, and every text right, of two zones", async () => {
  const server = await (await makeInstallation(CATALOG)).start();
  // Many frames are cut in the middle; some connections break before the first.
  const proxy = await ShakyProxy.start(server.url, new Chance(11), 600, 9_000);
  const connection = new Page(`${proxy.url}/events`, { mayBeSaid });
  await connection.until(() => connection.heard.some(({ type }) => type === "connected"));
  const { connectionId } = connection.heard[0]!.data;
  const zones = ["driver", "rear"];
  const pages: Page[] = [];
  for (const zone of zones) {
    await create(server, `${zone}-song`, "singer", { ...ANN, zone, connectionId });
    pages.push(new Page(`${proxy.url}/session/${zone}-song/events`, { mayBeSaid }));
  }

  for (let round = 0; round < 5; round++) {
    const runs = await Promise.all(zones.map((zone) => say(server, `${zone}-song`, "sing")));
    // Only the driver gets a call.
    const call = `driver-call${round}`;
    await create(server, call, "phone", { ...ANN, zone: "driver", connectionId });
    await say(server, call, "hello");
    expect((await server.post(`/session/${call}/archive`)).status).toBe(200);
    for (const [n, zone] of zones.entries()) {
      await connection.until(ended(connection, `${zone}-song`, runs[n]!));
      await pages[n]!.until(ended(pages[n]!, `${zone}-song`, runs[n]!));
    }
  }
  for (const [n, zone] of zones.entries()) {
    await expectWhole(server, connection, `${zone}-song`);
    await expectWhole(server, pages[n]!, `${zone}-song`);
  }
  expect([connection, ...pages].map(({ faults }) => faults)).toEqual([[], [], []]);
  for (const page of [connection, ...pages]) expect(page.opens).toBeGreaterThan(5);
  expect(proxy.cuts).toBeGreaterThan(20);
  // It was the same connection each time, despite the breaks.
  const ids = connection.heard.filter(({ type }) => type === "connected").map(({ data }) => data.connectionId);
  expect(new Set(ids)).toEqual(new Set([connectionId]));
  // A call in front never paused the song in the back.
  const states = (zone: string) =>
    connection.logOf(`${zone}-song`).flatMap(({ type, data }) => (type === "session_transition" ? [data.to] : []));
  expect(states("driver").filter((state) => state === "paused")).toHaveLength(5);
  expect(states("rear")).not.toContain("paused");
  for (const zone of zones) {
    const songs = connection
      .logOf(`${zone}-song`)
      .filter(({ type, data }) => type === "message" && data.content === WHOLE);
    expect(songs).toHaveLength(5);
  }
});
