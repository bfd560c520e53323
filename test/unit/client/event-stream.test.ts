import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { ClientError } from "../../../src/client/client-error.ts";
import { type EventStream, type EventStreamOptions, openEvents } from "../../../src/client/event-stream.ts";
import type { ServerEvent } from "../../../src/client/server-event.ts";
import {
  type Answer,
  cut,
  frame,
  liveFrame,
  problem,
  SmallServer,
  stream,
} from "../../support/servers/small-server.ts";

/** A stream of a server with these answers, and a clock that does not wait; the server's last answer is 204. */
async function stage(answers: Answer[], options: Partial<EventStreamOptions> = {}) {
  const server = await SmallServer.start(...answers, noMore);
  const waits: number[] = [];
  const events = openEvents({
    urlAt: (position) => `${server.url}/events${position === undefined ? "" : `?lastEventId=${position}`}`,
    random: () => 0,
    delay: async (ms) => void waits.push(ms),
    ...options,
  });
  return { server, waits, events, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

const noMore: Answer = (response) => response.writeHead(204).end();
const bye = (data: object) => liveFrame("bye", data);

async function all(events: EventStream): Promise<ServerEvent[]> {
  return Array.fromAsync(events);
}

const seqs = (events: ServerEvent[]) => events.map(({ seq }) => seq);
const urls = ({ heard }: SmallServer) => heard.map(({ url }) => url);

it("events arrive typed and in order, until the server answers 204", async () => {
  await using place = await stage([stream(["retry: 10\n\n", frame(1), ":\n\n", frame(2)])]);
  const events = await all(place.events);
  expect(events).toEqual([
    {
      type: "session_updated",
      data: { title: "title 1" },
      timestamp: "2026-01-01T00:00:00.000Z",
      sessionId: "s",
      seq: 1,
    },
    expect.objectContaining({ seq: 2 }),
  ]);
  expect(place.server.heard[0]!.headers.accept).toBe("text/event-stream");
});

it("a stream that was cut continues after its last event, by the query and not by a header", async () => {
  await using place = await stage([stream([frame(1), frame(2)], "cut"), stream([frame(3)], "cut"), stream([frame(4)])]);
  expect(seqs(await all(place.events))).toEqual([1, 2, 3, 4]);
  const { server } = place;
  expect(urls(server)).toEqual(["/events", ...[2, 3, 4].map((seq) => `/events?lastEventId=e.${seq}`)]);
  expect(server.heard.some(({ headers }) => "last-event-id" in headers)).toBe(false);
  expect(place.events.position).toBe("e.4");
});

it("a position without an event counts, and so does a position of an earlier stream", async () => {
  await using place = await stage([stream(["id: e.7\n\n"], "cut")], { position: "e.5" });
  expect(await all(place.events)).toEqual([]);
  expect(urls(place.server)).toEqual(["/events?lastEventId=e.5", "/events?lastEventId=e.7"]);
});

it("an incomplete event is not delivered: it arrives complete after the reconnection", async () => {
  await using place = await stage([stream([frame(1), frame(2).slice(0, -1)], "cut"), stream([frame(2)])]);
  expect(seqs(await all(place.events))).toEqual([1, 2]);
  expect(urls(place.server)[1]).toBe("/events?lastEventId=e.1");
});

it("an event that is sent repeatedly is delivered once", async () => {
  const both = [frame(1), frame(1, { session: "t", id: "e.2" })];
  const again = stream([...both, frame(2), frame(3), frame(2)]);
  await using place = await stage([stream([...both, frame(2)], "cut"), again]);
  const events = await all(place.events);
  expect(events.map(({ sessionId, seq }) => `${sessionId}${seq}`)).toEqual(["s1", "t1", "s2", "s3"]);
});

it("a floor's own events are identified by their position", async () => {
  const flags = (id: string) => liveFrame("floor_updated", { flags: {} }, id);
  await using place = await stage([stream([flags("e.4"), flags("e.6")], "cut"), stream([flags("e.6"), flags("e.9")])]);
  expect(await all(place.events)).toHaveLength(3);
});

it("an earlier position counts as new after a reset", async () => {
  const reset = (from?: number) => liveFrame("reset", from === undefined ? {} : { sessionId: "s", from }, "f.0");
  await using place = await stage([stream([frame(5), reset(1), frame(1), frame(2), reset(), frame(1)])]);
  const events = await all(place.events);
  expect(events.map(({ type, seq }) => seq ?? type)).toEqual([5, "reset", 2, "reset", 1]);
});

it("the log of a deleted and recreated session begins again", async () => {
  const data = { from: "active.idle", to: "deleted", event: "delete" };
  const about = { timestamp: "2026-01-01T00:00:00.000Z", sessionId: "s", seq: 9 };
  const deleted = JSON.stringify({ type: "session_transition", data, ...about });
  await using place = await stage([stream([frame(8), `data: ${deleted}\n\n`, frame(1)])]);
  expect(seqs(await all(place.events))).toEqual([8, 9, 1]);
});

it("a reader reconnects after the time in `retry:`", async () => {
  const [first, last] = [stream(["retry: 700\n\n", frame(1)]), stream(["retry: 3600000\n\n", frame(3)])];
  await using place = await stage([first, stream([frame(2)]), last]);
  await all(place.events);
  expect(place.waits).toEqual([700, 700, 30_000]);
});

it("the stream reconnects after two seconds plus a random delay if the server sends no `retry:`", async () => {
  await using place = await stage([stream([frame(1)])], { random: () => 1 });
  await all(place.events);
  expect(place.waits).toEqual([2_500]);
});

it("a draining or overloaded server is left alone for as long as it says", async () => {
  const reasons: (string | undefined)[] = [];
  const answers = [
    stream([frame(1), bye({ reason: "draining", reconnectInMs: 1_234 })]),
    stream([bye({ reason: "overloaded", reconnectInMs: 4_321 })]),
    stream([frame(2)]),
  ];
  await using place = await stage(answers, {
    onStatus: (status, state) => void (status === "waiting" && reasons.push(state?.bye)),
  });
  const events = await all(place.events);
  expect(reasons).toEqual(["draining", "overloaded", undefined]);
  expect(events.map(({ type, seq }) => seq ?? type)).toEqual([1, "bye", "bye", 2]);
  expect(place.waits.slice(0, 2)).toEqual([1_234, 4_321]);
  expect(urls(place.server)[2]).toBe("/events?lastEventId=e.1");
});

it('a bye with the reason "ended" ends the stream: the server is not asked again', async () => {
  await using place = await stage([stream([frame(1), bye({ reason: "ended" })])]);
  expect((await all(place.events)).map(({ type }) => type)).toEqual(["session_updated", "bye"]);
  expect(place.server.heard).toHaveLength(1);
});

it("a permanent refusal is thrown", async () => {
  await using place = await stage([stream([frame(1)]), problem("session_not_found", 404)]);
  const seen: unknown[] = [];
  const reading = (async () => {
    for await (const { seq } of place.events) seen.push(seq);
  })();
  await expect(reading).rejects.toMatchObject({ name: "ClientError", code: "session_not_found", status: 404 });
  expect(seen).toEqual([1]);
  expect(place.server.heard).toHaveLength(2);
});

it("an HTML page instead of a stream is thrown", async () => {
  const page: Answer = (response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>Hello</h1>");
  await using place = await stage([page]);
  await expect(all(place.events)).rejects.toMatchObject({ code: "unexpected_answer", status: 200 });
});

it("temporary failures are retried with growing delays, which reset after a success", async () => {
  const down: Answer[] = [cut, problem("unavailable", 503), cut, cut, cut];
  await using place = await stage([...down, stream([frame(1)]), cut], { random: () => 1 });
  expect(seqs(await all(place.events))).toEqual([1]);
  expect(place.waits).toEqual([2_000, 4_000, 8_000, 16_000, 30_000, 2_500, 2_000]);
});

it("headers that cannot be computed end the stream with their own error", async () => {
  await using place = await stage([], {
    headers: () => {
      throw new Error("log in first");
    },
  });
  await expect(all(place.events)).rejects.toThrow("log in first");
  expect(place.server.heard).toHaveLength(0);
});

it("headers that cannot be had at the moment are a failed attempt", async () => {
  let asked = 0;
  const headers = () => {
    if (asked++ > 0) return {};
    throw new ClientError("unreachable", "The issuer does not answer.", { status: 0, retryable: true });
  };
  await using place = await stage([stream([frame(1)]), noMore], { headers });
  expect([seqs(await all(place.events)), place.waits[0]]).toEqual([[1], 2_000]);
});

it("headers that take too long are a failed attempt, and do not keep a stream from being closed", async () => {
  const never = () => new Promise<never>(() => {});
  let asked = 0;
  const headers = () => (asked++ === 0 ? never() : {});
  await using place = await stage([stream([frame(1)]), noMore], { headers, silenceMs: 500 });
  expect(seqs(await all(place.events))).toEqual([1]);

  await using other = await stage([], { headers: never });
  const reading = all(other.events);
  await setImmediate();
  other.events.close();
  expect(await reading).toEqual([]);
});

it("characters and frames that arrive in pieces are put together", async () => {
  const bytes = new TextEncoder().encode(frame(1, { title: "导航 🚗" }));
  const inPieces: Answer = async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const byte of bytes) {
      response.write(Uint8Array.of(byte));
      await setImmediate();
    }
    response.end();
  };
  await using place = await stage([inPieces]);
  expect(await all(place.events)).toMatchObject([{ data: { title: "导航 🚗" } }]);
});

it("an event of an unknown type is skipped, and its position kept", async () => {
  const strange = ["data: not json\n\n", "data: 7\n\n", 'data: {"type":"delta"}\n\n'];
  await using place = await stage([stream([liveFrame("hologram", {}, "e.1"), ...strange, frame(2)])]);
  expect(seqs(await all(place.events))).toEqual([2]);
});

it("an event beyond the size limit ends the stream", async () => {
  const huge: Answer = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.on("error", () => {});
    response.end(`data: ${"x".repeat(9_000_000)}\n\n`);
  };
  await using place = await stage([huge]);
  await expect(all(place.events)).rejects.toMatchObject({ code: "unexpected_answer" });
});

it("the stream is not read further while the reader is behind, and delivers everything in the end", async () => {
  const count = 300;
  const title = "x".repeat(65_000);
  let written = 0;
  const flood: Answer = async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (let seq = 1; seq <= count; seq += 1) {
      written = seq;
      const isTaken = response.write(frame(seq, { title }));
      if (!isTaken) await new Promise((resolve) => response.once("drain", resolve));
    }
    response.end(bye({ reason: "ended" }));
  };
  let pieces = 0;
  const counted: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    const reader = response.body!.getReader();
    const body = new ReadableStream(
      {
        async pull(controller) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          pieces += 1;
          controller.enqueue(value);
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers: response.headers });
  };
  await using place = await stage([flood, noMore], { fetch: counted });
  const events = place.events[Symbol.asyncIterator]();
  await events.next();
  const before = pieces;
  // The round trip of another request, in which the flood could arrive.
  for (let round = 0; round < 20; round += 1) await fetch(`${place.server.url}/else`);
  expect(pieces).toBe(before);
  expect(written).toBeLessThan(count);
  const rest: ServerEvent[] = [];
  for (let next = await events.next(); !next.done; next = await events.next()) rest.push(next.value);
  expect(seqs(rest).slice(0, -1)).toEqual(Array.from({ length: count - 1 }, (_, index) => index + 2));
});

it("an abort ends the stream silently, while it waits for an event or for a reconnection", async () => {
  const stopping = new AbortController();
  await using place = await stage([stream([frame(1)], "open")], { signal: stopping.signal });
  const events = place.events[Symbol.asyncIterator]();
  await events.next();
  const next = events.next();
  stopping.abort();
  expect(await next).toEqual({ done: true, value: undefined });

  const other = new AbortController();
  await using waiting = await stage([cut], { signal: other.signal, delay: async () => other.abort() });
  expect(await all(waiting.events)).toEqual([]);
  expect(waiting.server.heard).toHaveLength(1);
});

/** An answer that stays open, and when its connection is released. */
function lasting(text: string) {
  const { promise: isGone, resolve: gone } = Promise.withResolvers<void>();
  const open: Answer = (response) => {
    response.on("close", gone);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(text);
  };
  return { open, isGone };
}

it("closing the stream ends the wait for an event, and releases the connection", async () => {
  const { open, isGone } = lasting(frame(1));
  await using place = await stage([open]);
  const events = place.events[Symbol.asyncIterator]();
  await events.next();
  const next = events.next();
  place.events.close();
  expect((await next).done).toBe(true);
  await isGone;
});

it("leaving the loop releases the connection", async () => {
  const { open, isGone } = lasting(frame(1) + frame(2));
  await using place = await stage([open]);
  for await (const { seq } of place.events) {
    expect(seq).toBe(1);
    break;
  }
  await isGone;
});

it("a connection without any bytes for too long counts as dead", async () => {
  await using place = await stage([() => {}, stream([frame(1)], "open"), stream([frame(2)])], { silenceMs: 500 });
  expect(seqs(await all(place.events))).toEqual([1, 2]);
});

it("a stream reports its status", async () => {
  const reported: string[] = [];
  await using place = await stage([cut, stream([frame(1)])], { onStatus: (status) => reported.push(status) });
  await all(place.events);
  expect(reported.join(" ")).toBe("connecting waiting connecting open waiting connecting");
});

it("a stream reports each position, also after events that it does not deliver", async () => {
  const reported: string[] = [];
  const answer = stream([frame(1), "id: e.4\n\n", frame(5)]);
  await using place = await stage([answer], { onPosition: (position) => reported.push(position) });
  expect(seqs(await all(place.events))).toEqual([1, 5]);
  expect(reported).toEqual(["e.1", "e.4", "e.5"]);
});

it("a stream can be read only once", async () => {
  await using place = await stage([]);
  // An immediate 204 is an empty stream.
  expect(await all(place.events)).toEqual([]);
  expect(() => place.events[Symbol.asyncIterator]()).toThrow(TypeError);
});

it("each kind of stream requests its own address, and binds sessions only if it has no position", async () => {
  await using server = await SmallServer.start(stream([frame(1)], "cut"), noMore);
  const client = createClient({ baseUrl: server.url, delay: async () => {} });
  await all(client.openConnection({ sessionIds: ["a", "b"], userId: "安 n", zone: "z" }));
  await all(client.openSession("s", { position: "e.3" }));
  await all(client.openFloor("u:ann/z"));
  expect(urls(server)).toEqual([
    "/events?userId=%E5%AE%89+n&zone=z&sessionId=a&sessionId=b",
    "/events?userId=%E5%AE%89+n&zone=z&lastEventId=e.1",
    "/session/s/events?lastEventId=e.3",
    "/floor/u%3Aann%2Fz/events",
  ]);
});
