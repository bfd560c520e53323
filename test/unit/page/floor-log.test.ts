import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FloorLog } from "../../../page/log/floor-log.ts";
import { floorSeqOf, type LogEvent } from "../../../page/log/log-event.ts";
import type { Client } from "../../../src/client/client.ts";

/** As many events as a page keeps. */
const KEPT = 200_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const eventAt = (place: number) => ({ type: "floor_updated", position: `e.${place}` }) as LogEvent;

/** A server whose log has so many events, and that counts the events it sent. */
class Server {
  head: number;
  sent = 0;

  constructor(head: number) {
    this.head = head;
  }

  async readFloorLog(_: string, { before, limit = 500 }: { before?: string; limit?: number }) {
    const end = before === undefined ? this.head : floorSeqOf({ position: before }) - 1;
    const count = Math.min(limit, end);
    this.sent += count;
    const events = Array.from({ length: count }, (_, index) => eventAt(end - index));
    return { events, hasMore: count < end, position: `e.${this.head}` };
  }
}

async function grow(log: FloorLog, server: Server, by: number): Promise<void> {
  server.head += by;
  log.refresh();
  await vi.runAllTimersAsync();
}

test("a log that is longer than a page keeps is dropped in lots, says that there is more, and reads none of it again", async () => {
  const server = new Server(KEPT - 5);
  const log = new FloorLog("f", server as unknown as Client);
  await grow(log, server, 0);
  expect(log.view).toMatchObject({ hasOlder: false, isReading: false });
  expect(log.view.events).toHaveLength(KEPT - 5);

  const { sent } = server;
  const firsts = new Set<number>();
  for (let round = 0; round < 20; round += 1) {
    await grow(log, server, 1);
    firsts.add(floorSeqOf(log.view.events[0]!));
  }
  expect(firsts.size).toBe(2);
  expect(log.view.hasOlder).toBe(true);
  expect(log.view.events.length).toBeLessThan(KEPT);
  const places = log.view.events.map(floorSeqOf);
  expect(places).toEqual(places.map((_, index) => places[0]! + index));
  expect(places.at(-1)).toBe(KEPT + 15);
  // Each refresh asks for a page of the newest events.
  expect(server.sent - sent).toBeLessThanOrEqual(20 * 100);
});

test("a page of older events that arrives after the oldest were dropped is not added: there is no gap", async () => {
  const server = new Server(KEPT + 50_000);
  const log = new FloorLog("f", server as unknown as Client);
  const read = server.readFloorLog.bind(server);
  const held = Promise.withResolvers<void>();
  let isHeld = false;
  server.readFloorLog = async (id, range) => {
    const page = await read(id, range);
    if (log.view.events.length >= KEPT - 2_000 && range.limit === 2_000 && !isHeld) {
      isHeld = true;
      await held.promise;
    }
    return page;
  };
  await grow(log, server, 0);
  expect(log.view.events.length).toBeGreaterThan(KEPT - 2_000);
  await grow(log, server, 1_900);
  held.resolve();
  await vi.runAllTimersAsync();
  const places = log.view.events.map(floorSeqOf);
  expect(places).toEqual(places.map((_, index) => places[0]! + index));
  expect(log.view).toMatchObject({ hasOlder: true, isReading: false });
});
