import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused, typesOf } from "../../../support/clients/e2e-client.ts";
import { headOf, RawSocket } from "../../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** A session whose log has `events` events. */
async function withLog(events: number, ann = new E2eClient(node)) {
  const session = await ann.create("music");
  for (let title = 2; title <= events; title += 1) {
    await accepted(ann.node.patch(`/session/${session.id}`, { title: `Title ${title}` }));
  }
  const { position } = await accepted(ann.node.get(`/session/${session.id}`));
  const [epoch = "", , incarnation = ""] = position.split(".");
  return { ...session, ann, path: `/session/${session.id}/events`, epoch, incarnation, position };
}

/** The frames without data that a browser gets up to a text. */
async function framesWithoutData(path: string, last: string): Promise<string[]> {
  const client = await RawSocket.open(node.url);
  await client.send(headOf("GET", path, { "User-Agent": "Mozilla/5.0" }));
  const text = await client.until(new RegExp(`${last}.*\\n\\n`));
  client.destroy();
  const [, body = ""] = text.split("\r\n\r\n");
  return body.split("\n\n").filter((frame, index, all) => index < all.length - 1 && !/^data: /m.test(frame));
}

test("every event stream has headers that keep proxies and browsers from buffering it, and is not compressed", async () => {
  const { ann, path } = await withLog(1);
  for (const each of [path, "/events", `${ann.floorPath}/events`]) {
    const { status, headers } = await node.stream(each, { "Accept-Encoding": "gzip, br" } as never);
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      "x-content-type-options": "nosniff",
      "content-encoding": "identity",
    });
  }
});

test("what a stream sends at once has no blank line without data before it, which some clients report as an event", async () => {
  const { ann, id, path, position } = await withLog(3);
  const archived = await withLog(1, ann);
  await accepted(ann.on(archived.id, "archive"));
  const { position: floorHead } = await ann.floor();
  for (const [each, last] of [
    [path, '"seq":3'],
    [`${path}?lastEventId=nonsense`, '"reset"'],
    [archived.path, '"bye"'],
    [`${ann.floorPath}/events`, '"session_transition"'],
    [`/events?sessionId=${id}`, '"agent_list"'],
    ["/events?lastEventId=nonsense", '"reset"'],
    ["/floors/events", '"reset"'],
  ] as const) {
    expect(await framesWithoutData(each, last), each).toEqual([]);
  }
  // A reader at the head gets nothing at once, not even its own position.
  for (const each of [`${path}?lastEventId=${position}`, `${ann.floorPath}/events?lastEventId=${floorHead}`]) {
    const client = await RawSocket.open(node.url);
    await client.send(headOf("GET", each, { "User-Agent": "Mozilla/5.0" }));
    expect((await client.until(/\r\n\r\n.*\n/)).split("\r\n\r\n")[1]).toBe("retry: 2000\n");
    client.destroy();
  }
});

test("every event stream is sent to clients that accept it, and refused with 406 to others", async () => {
  const { ann, path } = await withLog(1);
  for (const each of [path, "/events", `${ann.floorPath}/events`]) {
    for (const Accept of ["text/event-stream", "*/*", "text/*", "application/json, text/event-stream;q=0.5", ""]) {
      expect((await node.stream(each, { Accept })).status, Accept).toBe(200);
    }
    for (const Accept of ["application/json", "text/html, application/xml", "text/event-stream;q=0"]) {
      expect((await refused(node.get(each, { headers: { Accept } }))).errorCode).toBe("not_acceptable");
    }
  }
});

test("a session's stream continues after the position of the header or the query; the header takes precedence", async () => {
  const { path, epoch } = await withLog(5);
  const seqs = async (query: string, header?: string) => {
    const stream = await node.stream(`${path}${query}`, header === undefined ? {} : { "Last-Event-ID": header });
    return (await stream.until(({ seq }) => seq === 5)).map(({ seq }) => seq);
  };
  expect(await seqs("", `${epoch}.2`)).toEqual([3, 4, 5]);
  expect(await seqs(`?lastEventId=${epoch}.3`)).toEqual([4, 5]);
  expect(await seqs(`?lastEventId=${epoch}.1`, `${epoch}.3`)).toEqual([4, 5]);
  expect(await seqs(`?lastEventId=${epoch}.0`)).toEqual([1, 2, 3, 4, 5]);
  expect(await seqs(`?lastEventId=`, "")).toEqual([1, 2, 3, 4, 5]);
  // A client that adds its newest position to an address that has one.
  expect(await seqs(`?lastEventId=${epoch}.1&lastEventId=${epoch}.3`)).toEqual([4, 5]);
  expect(await seqs("", `${epoch}.1, ${epoch}.3`)).toEqual([4, 5]);
});

test("an archived session's stream is its whole log for a new reader, and 204 for one that has the last event", async () => {
  const { ann, id, path, epoch } = await withLog(3);
  await accepted(ann.on(id, "archive"));
  const events = await (await node.stream(path)).end();
  expect(events.map(({ seq, type }) => seq ?? type)).toEqual([1, 2, 3, 4, "bye"]);
  const late = await (await node.stream(path, { "Last-Event-ID": `${epoch}.3` })).end();
  expect(typesOf(late)).toEqual(["session_transition", "bye"]);
  expect((await node.get(path, { headers: { "Last-Event-ID": `${epoch}.4` } })).status).toBe(204);
  const lost = await (await node.stream(path, { "Last-Event-ID": "nonsense" })).end();
  expect(typesOf(lost)).toEqual(["reset", "bye"]);
});

test("a deleted session's stream is its last event, bye and the end; then 204", async () => {
  const { id, path, epoch } = await withLog(2);
  const live = await node.stream(path);
  await live.find("session_created");
  await accepted(node.delete(`/session/${id}`));
  const ended = (await live.end()).slice(-2);
  expect(typesOf(ended)).toEqual(["session_transition", "bye"]);
  expect(ended[1]!.data).toEqual({ reason: "ended" });
  for (const headers of [{}, { "Last-Event-ID": `${epoch}.1` }]) {
    const [last, bye, ...rest] = await (await node.stream(path, headers)).end();
    expect(last).toMatchObject({ id: `${epoch}.3.0`, seq: 3, data: { to: "deleted", event: "delete" } });
    expect(bye).toMatchObject({ type: "bye", data: { reason: "ended" } });
    expect(rest).toEqual([]);
  }
  expect((await node.get(path, { headers: { "Last-Event-ID": `${epoch}.3` } })).status).toBe(204);
});

test("a session's stream answers an invalid position with a reset at the head, and later events follow", async () => {
  const { id, path, epoch, incarnation } = await withLog(3);
  const streams = [];
  for (const position of ["nonsense", "zzzzzz.1", `${epoch}.4`, "x".repeat(200), "%00"]) {
    streams.push(await node.stream(path, { "Last-Event-ID": position }));
  }
  for (const position of ["nonsense", "x".repeat(2_000)])
    streams.push(await node.stream(`${path}?lastEventId=${position}`));
  const data = { sessionId: id, from: 3 };
  for (const stream of streams) {
    expect(await stream.next()).toMatchObject({ type: "reset", id: `${epoch}.3.${incarnation}`, data });
  }
  await accepted(node.patch(`/session/${id}`, { title: "later" }));
  for (const stream of streams) expect(await stream.next()).toMatchObject({ seq: 4, data: { title: "later" } });
});

test("the stream of an unknown session is not found, and with a malformed id it is a bad request", async () => {
  expect((await refused(node.get("/session/nowhere/events"))).errorCode).toBe("session_not_found");
  expect((await refused(node.get("/session/no%20id/events"))).errorCode).toBe("bad_request");
});

test("a floor's stream has its decisions, the transitions of all its sessions and its flags, in order", async () => {
  const ann = new E2eClient(node);
  const stream = await node.stream(`${ann.floorPath}/events`);
  const music = await ann.hold("music");
  await ann.talk(music.id, "hello");
  await refused(ann.askToCreate({ agentId: "chat", activate: true }));
  const phone = await ann.hold("phone");
  await accepted(ann.send({ type: "switch_agent", sessionId: phone.id, agentId: "planner" }));
  await accepted(node.put(`${ann.floorPath}/flags`, { night: true }));
  const events = await stream.until("floor_updated");
  expect(events.map(({ type, sessionId, data }) => [type, sessionId, data["event"] ?? data["outcome"]])).toEqual([
    ["session_created", music.id, undefined],
    ["arbitration", music.id, "granted"],
    ["session_transition", music.id, "activate"],
    ["session_transition", music.id, "turn"],
    ["session_transition", music.id, "done"],
    ["arbitration", undefined, "rejected"],
    ["session_created", phone.id, undefined],
    ["arbitration", phone.id, "granted"],
    ["session_transition", music.id, "preempt"],
    ["session_transition", phone.id, "activate"],
    ["agent_switched", phone.id, undefined],
    ["floor_updated", undefined, undefined],
  ]);
  const places = events.map(({ id }) => Number(id!.split(".")[1]));
  expect(places).toEqual(places.toSorted((one, other) => one - other));
});

test("a floor's stream resets an unknown position", async () => {
  const ann = new E2eClient(node);
  await ann.hold("music");
  const { position } = await ann.floor();
  for (const wrong of ["zzzzzz.1", "nonsense", `${position}9`]) {
    const stream = await node.stream(`${ann.floorPath}/events`, { "Last-Event-ID": wrong });
    const data = { from: Number(position.split(".")[1]) };
    expect(await stream.next()).toMatchObject({ type: "reset", id: position, data });
  }
});
