import { gunzipSync } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import { type Caller, startGuarded } from "../../../support/clients/callers.ts";
import { accepted, E2eClient } from "../../../support/clients/e2e-client.ts";
import type { StreamEvent } from "../../../support/clients/frame-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const { ann, bob, ops } = await startGuarded();
const node = await NodeUnderTest.start({ catalog: { default_agent: "general", policy: { resume_delay: "1h" } } });
afterAll(() => node.stop());
const hold = async (caller: Caller, userId: string | undefined) =>
  (await accepted(caller.post("/session/create", { agentId: "music", userId, activate: true }))).session;
const floorsSeen = async (caller: Caller) =>
  (await accepted(caller.get("/floors"))).floors.map(({ floorId }) => floorId);
const about = (floorId: string) => (event: StreamEvent) => event.type === "floor" && event.data["floorId"] === floorId;
const own = await hold(ann, undefined);
await hold(ann, "ann");
await hold(bob, "bob");

test("GET /floors lists to a caller its own floors, and to an operator all of them", async () => {
  expect(await floorsSeen(ann)).toEqual([`s:${own.id}`, "u:ann"]);
  expect(await floorsSeen(bob)).toEqual(["u:bob"]);
  // Not even that there are others, which a page would have room for.
  expect(await accepted(bob.get("/floors?limit=1"))).toMatchObject({ floors: [{ floorId: "u:bob" }], hasMore: false });
  expect(await floorsSeen(ops)).toEqual([`s:${own.id}`, "u:ann", "u:bob"]);
});

test("GET /floors shows the holder of each floor, in pages", async () => {
  const first = await accepted(ops.get("/floors?limit=1"));
  expect(first).toMatchObject({
    hasMore: true,
    floors: [{ state: "held", holder: { sessionId: own.id, agentId: "music" }, paused: 0, queued: 0 }],
  });
  const after = encodeURIComponent(`s:${own.id}`);
  const next = await accepted(ops.get(`/floors?state=held&after=${after}`));
  expect(next).toMatchObject({ hasMore: false, floors: [{ floorId: "u:ann" }, { floorId: "u:bob" }] });
  expect((await ops.get("/floors?state=none")).status).toBe(400);
});

test("GET /floors/events begins with a reset and the floors in use, then sends each change of a floor that the caller may see", async ({
  task,
}) => {
  // A zone of its own for each try: the phone keeps the floor.
  const fields = { agentId: "music", activate: true, zone: `seat-${task.result?.retryCount ?? 0}` };
  const { session: hers } = await accepted(ann.post("/session/create", { ...fields, userId: "ann" }));
  const { session: his } = await accepted(bob.post("/session/create", { ...fields, userId: "bob" }));
  const [toAnn, toAll] = await Promise.all([ann.stream("/floors/events"), ops.stream("/floors/events")]);
  expect(await toAnn.next()).toMatchObject({ type: "reset", data: {} });
  expect(await toAll.next()).toMatchObject({ type: "reset", data: {} });
  expect(await toAnn.find(about(hers.floorId))).toMatchObject({ data: { state: "held", paused: 0 } });
  await toAll.find(about(his.floorId));
  await accepted(bob.post(`/session/${his.id}/archive`));
  expect(await toAll.find(about(his.floorId))).toMatchObject({ data: { state: "idle" } });
  const phone = await accepted(ann.post("/session/create", { ...fields, agentId: "phone", userId: "ann" }));
  const changed = (event: StreamEvent) => about(hers.floorId)(event) && event.data["paused"] === 1;
  expect(await toAnn.find(changed)).toMatchObject({ data: { holder: { sessionId: phone.session.id }, paused: 1 } });
  const { events } = toAnn;
  expect(events.filter(about("u:bob"))).toEqual([]);
  expect(events.filter(about(his.floorId))).toEqual([]);
});

test("GET /floors/events gives a later reader the current state", async () => {
  const first = await ops.stream("/floors/events");
  await first.find(about("u:ann"));
  const second = await ops.stream("/floors/events");
  expect((await second.next()).type).toBe("reset");
  expect(await second.find(about("u:ann"))).toMatchObject({ data: { state: "held" } });
});

test("a reservation is in the floor's view, its log and the list of floors until it ends", async () => {
  const cid = new E2eClient(node);
  const floor = await node.stream(`${cid.floorPath}/events`);
  const weather = await cid.hold("weather");
  const phone = await cid.hold("phone");
  await accepted(cid.on(phone.id, "archive"));
  const reserved = { sessionId: weather.id, until: expect.any(Number) };
  expect((await floor.find("floor_updated")).data).toEqual({ flags: {}, reserved });
  expect(await cid.floor()).toMatchObject({ holder: null, reserved });
  const { floors } = await accepted(node.get("/floors?state=waiting"));
  expect(floors).toContainEqual(expect.objectContaining({ reserved, paused: 1, state: "waiting" }));
  await accepted(cid.on(weather.id, "resume"));
  expect((await floor.find("floor_updated")).data).toEqual({ flags: {} });
  expect(await cid.floor()).not.toHaveProperty("reserved");
});

interface Page {
  events: { position: string; type: string }[];
  hasMore: boolean;
  position: string;
}
const pageOf = async (path: string) => (await accepted(node.get(path))) as unknown as Page;

test("GET /floor/{id}/log returns every event of the floor, the newest first, in pages, and compressed for a client that accepts it", async () => {
  const eve = new E2eClient(node);
  const { id } = await eve.hold("general");
  await eve.talk(id, "hello");
  const logged = (await eve.log(id)).map(({ type, seq }) => [type, seq]);
  const path = `${eve.floorPath}/log`;
  const whole = await pageOf(path);
  const ofSession = whole.events.filter((event) => "seq" in event) as unknown as { type: string; seq: number }[];
  expect(ofSession.map(({ type, seq }) => [type, seq]).toReversed()).toEqual(logged);
  expect(whole).toMatchObject({ hasMore: false, position: whole.events[0]!.position });
  const pages: Page["events"] = [];
  for (let before = ""; ; before = `&before=${pages.at(-1)!.position}`) {
    const page = await pageOf(`${path}?limit=2${before}`);
    pages.push(...page.events);
    if (!page.hasMore) break;
  }
  expect(pages).toEqual(whole.events);
  const { headers, bytes } = await node.send("GET", path, { "Accept-Encoding": "gzip" });
  expect(headers["content-encoding"]).toBe("gzip");
  expect(gunzipSync(bytes).toString()).toBe((await node.get(path)).text);
});

test("GET /floor/{id}/log refuses a position of another store, and another user's floor", async () => {
  expect((await node.get("/floor/u%3Agus/log?before=zz.1")).status).toBe(400);
  expect((await bob.get("/floor/u%3Aann/log")).status).toBe(404);
});
