import { expect, test } from "vitest";
import { EventStream } from "../../support/clients/event-stream.ts";
import { create, messagesOf, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";

const SONG = Array.from({ length: 24 }, (_, n) => `la${n} `);
const catalogOf = (song: object) => ({
  agents: [
    { name: "singer", priority: 20, adapter: { kind: "scripted", replies: [song] } },
    { name: "phone", priority: 90 },
  ],
});
const CATALOG = catalogOf({ say: SONG, delay: "1ms" });
/** The same song, which is never over. */
const LASTING = catalogOf({ say: ["la0 la1 la2 ", ...SONG.slice(3)], delay: "1h" });
/** So many that their ends are spread over time. */
const STREAMS = 120;

test("a stopping node disconnects its readers one by one, and exits with code 0", async () => {
  const installation = await makeInstallation(CATALOG, { INTERLOCK_DRAIN: "4s" });
  const server = await installation.start();
  await create(server, "a", "phone", { userId: "ann" });
  const paths = ["/events", "/session/a/events", "/floor/u%3Aann/events"];
  const streams = await Promise.all(
    Array.from({ length: STREAMS }, (_, n) => EventStream.during(`${server.url}${paths[n % 3]}`)),
  );
  for (const stream of streams)
    await stream.until(({ position, events }) => position !== undefined || events.length > 0);

  server.signal("SIGTERM");
  // It reports that it is not ready, and does not begin to stop once more.
  let ready = await server.ask("GET", "/ready");
  while (ready.status === 200) ready = await server.ask("GET", "/ready");
  expect(ready).toMatchObject({ status: 503, body: { status: "not_ready" } });
  server.signal("SIGTERM");
  server.signal("SIGINT");

  const waits = new Set<number>();
  for (const stream of streams) {
    expect(await stream.over()).toBe("clean");
    const bye = stream.events.at(-1)!;
    expect(bye).toMatchObject({ type: "bye", data: { reason: "draining" } });
    expect(stream.retries).toEqual([2_000, bye.data.reconnectInMs]);
    waits.add(bye.data.reconnectInMs);
    expect(bye.data.reconnectInMs).toBeGreaterThanOrEqual(1_000);
    expect(bye.data.reconnectInMs).toBeLessThanOrEqual(5_000);
  }
  // The clients come back at different times.
  expect(waits.size).toBeGreaterThan(STREAMS / 2);
  expect(await server.ended).toEqual({ code: 0, signal: null });
  expect(server.log.filter(({ level }) => level >= 40)).toEqual([]);
});

test("runs that do not end in time are given back, held ones at once, and continue on the next node", async () => {
  const installation = await makeInstallation(CATALOG, { INTERLOCK_DRAIN: "1s" });
  const first = await installation.start({ catalog: LASTING });
  const readers = new Map<string, SessionReader>();
  for (const id of ["driven", "held"]) {
    await create(first, id, "singer");
    const reader = await SessionReader.of(first, id);
    readers.set(id, reader);
    await say(first, id, "sing");
    await reader.until(({ writing }) => [...writing.values()].some((text) => text.includes("la2 ")));
  }
  await create(first, "call", "phone", { userId: "held" });
  await readers.get("held")!.until((transcript) => transcript.stateOf("held") === "paused");
  first.signal("SIGTERM");
  expect(await first.ended).toEqual({ code: 0, signal: null });

  const second = await installation.start();
  await second.post("/session/call/archive");
  for (const [id, reader] of readers) {
    reader.moveTo(second.url);
    await reader.open();
    await reader.has(id, "complete");
    const answers = (await messagesOf(second, id)).slice(1);
    expect(answers.map(({ status }) => status)).toEqual(["interrupted", "success"]);
    expect(answers[0]!.content).toMatch(/^la0 la1 la2 /);
    expect(answers[1]!.content).toBe(SONG.join(""));
  }
});
