import { expect, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { EventStream } from "../../support/clients/event-stream.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { openGateway } from "../../support/nodes/gateway-stage.ts";
import { Chance } from "../../support/runner/chance.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

const CONNECTIONS = 1_500;
const AT_A_TIME = 100;

/** The resources of this process that keep it busy or alive. */
function resources(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

test("a thousand connections that open and close leave nothing behind", async () => {
  const store = await openTemporaryStore();
  const bus = new MemoryBus();
  const clock = new VirtualClock();
  const { gateway, url, log } = await openGateway({ store, bus, clock });
  const feeds = Array.from({ length: 20 }, (_, n) => new FloorFeed(store, bus, `u:user-${n}`));
  for (const [n, feed] of feeds.entries()) await feed.create(`s${n}`);
  const before: Record<string, number> = { ...resources(), timers: clock.timerCount, topics: bus.topicCount };
  const chance = new Chance(5);

  const comeAndGo = async () => {
    const n = chance.below(feeds.length);
    const path = chance.pick([`/session/s${n}/events`, `/floor/u%3Auser-${n}/events`, `/events?sessionId=s${n}`]);
    const stream = EventStream.begin(`${url}${path}`);
    const patience = chance.below(4);
    // Some disconnect before the answer, some during it, some after an event.
    if (patience === 0) await turn();
    if (patience === 1) for (let turns = chance.below(12); turns > 0; turns--) await turn();
    if (patience === 2) await stream.until(({ retries }) => retries.length > 0);
    if (patience === 3) await stream.until(({ events }) => events.length > 0);
    stream.cut();
    await stream.over();
  };
  let most = 0;
  for (let begun = 0; begun < CONNECTIONS; begun += AT_A_TIME) {
    await Promise.all(Array.from({ length: AT_A_TIME }, comeAndGo));
    most = Math.max(most, gateway.streams.count);
    await feeds[begun % feeds.length]!.log(`s${begun % feeds.length}`);
    await clock.advance(BOUNDS.reconcileMs);
  }

  // What tests before this one left in the process may end meanwhile, so only what has grown counts.
  const grown = () => {
    const now = { ...resources(), timers: clock.timerCount, topics: bus.topicCount };
    return Object.entries(now).filter(([kind, count]) => count > (before[kind] ?? 0));
  };
  for (let turns = 0; turns < 10_000 && grown().length > 0; turns++) await turn();
  expect([gateway.streams.count, gateway.followers.count]).toEqual([0, 0]);
  expect(grown()).toEqual([]);
  expect(await new Promise((resolve) => gateway.app.server.getConnections((_, count) => resolve(count)))).toBe(0);
  expect(log.lines).toEqual([]);
  expect(most).toBeGreaterThan(0);
});
