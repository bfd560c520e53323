import { expect, onTestFinished, test } from "vitest";
import { EventStream } from "../../support/clients/event-stream.ts";
import { create } from "../../support/clients/node-client.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";

/** So many that their ends are spread over time. */
const STREAMS = 120;

async function open(server: ChildServer, path: string): Promise<EventStream> {
  const stream = await EventStream.open(`${server.url}${path}`);
  onTestFinished(() => stream.cut());
  return stream;
}

test("a stopping node disconnects its readers one by one, and exits with code 0", async () => {
  const installation = await makeInstallation({ agents: [{ name: "phone" }] }, { INTERLOCK_DRAIN: "4s" });
  const server = await installation.start();
  await create(server, "a", "phone", { userId: "ann" });
  const paths = ["/events", "/session/a/events", "/floor/u%3Aann/events"];
  const streams = await Promise.all(Array.from({ length: STREAMS }, (_, n) => open(server, paths[n % 3]!)));
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
  }
  // The clients come back at different times.
  expect(waits.size).toBeGreaterThan(STREAMS / 2);
  expect(await server.ended).toEqual({ code: 0, signal: null });
  expect(server.log.filter(({ level }) => level >= 40)).toEqual([]);
});
