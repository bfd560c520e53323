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
/** Sessions are named after their zone. */
const zoneOf = (sessionId: string) => sessionId.split("-")[0]!;

const ANN = { userId: "ann" };

const ended = (page: Page, sessionId: string, runId: string) => () =>
  page.logOf(sessionId).some(({ type, data }) => type === "complete" && data.runId === runId);

/** The whole log, each event once and in order. */
async function expectWhole(server: ChildServer, page: Page, sessionId: string): Promise<void> {
  const head = await headOf(server, sessionId);
  await page.until(() => page.transcriptOf(sessionId).seqOf(sessionId) >= head);
  expect(page.logOf(sessionId).map(({ seq }) => seq)).toEqual(Array.from({ length: head }, (_, n) => n + 1));
}

test("pages whose connections break continuously see each event once, in order, and every text right, of two zones", async () => {
  const server = await (await makeInstallation(CATALOG)).start();
  // Many frames are cut in the middle; some connections break before the first.
  const proxy = await ShakyProxy.start(server.url, new Chance(11), 600, 9_000);
  const connection = new Page(`${proxy.url}/events`, { mayBeSaid, floorOf: zoneOf });
  await connection.until(() => connection.heard.some(({ type }) => type === "connected"));
  const { connectionId } = connection.heard[0]!.data;
  const zones = ["driver", "rear"];
  const pages: Page[] = [];
  for (const zone of zones) {
    await create(server, `${zone}-song`, "singer", { ...ANN, zone, connectionId });
    pages.push(new Page(`${proxy.url}/session/${zone}-song/events`, { mayBeSaid, floorOf: zoneOf }));
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
    const texts = [...connection.transcriptOf(`${zone}-song`).finished.values()];
    expect(texts.filter((text) => text === WHOLE)).toHaveLength(5);
  }
});

test("a page continues by itself when its node stops and another starts at the same address", async () => {
  const installation = await makeInstallation(CATALOG, { INTERLOCK_DRAIN: "1s" });
  const first = await installation.start();
  const connection = new Page(`${first.url}/events`, { mayBeSaid });
  await connection.until(() => connection.heard.length >= 2);
  const { connectionId } = connection.heard[0]!.data;
  await create(first, "song", "singer", { ...ANN, connectionId });
  const session = new Page(`${first.url}/session/song/events`, { mayBeSaid });
  const pages = [connection, session];
  const before = await say(first, "song", "sing");
  for (const page of pages) await page.until(ended(page, "song", before));

  first.signal("SIGTERM");
  expect(await first.ended).toEqual({ code: 0, signal: null });
  for (const page of pages) {
    await page.until(() => page.heard.at(-1)!.type === "bye");
    const { reason, reconnectInMs } = page.heard.at(-1)!.data;
    expect(reason).toBe("draining");
    expect(reconnectInMs).toBeGreaterThanOrEqual(1_000);
    expect(reconnectInMs).toBeLessThanOrEqual(5_000);
  }
  const second = await installation.start({ settings: { PORT: new URL(first.url).port } });
  expect(second.url).toBe(first.url);
  const runId = await say(second, "song", "sing");
  for (const page of pages) {
    await page.until(ended(page, "song", runId));
    await expectWhole(second, page, "song");
    expect([page.faults, page.opens]).toEqual([[], 2]);
    expect(page.heard.map(({ type }) => type)).not.toContain("reset");
  }
  const ids = connection.heard.filter(({ type }) => type === "connected").map(({ data }) => data.connectionId);
  expect(ids).toEqual([connectionId, connectionId]);
});
