import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { MemoryTickets } from "../../../src/bus/memory-tickets.ts";
import { RedisTickets } from "../../../src/bus/redis-tickets.ts";
import type { TicketStore } from "../../../src/bus/ticket-store.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { REDIS, REDIS_PROCESS } from "../../support/servers/redis-server.ts";
import { perTest, serverOf } from "../../support/servers/shared-server.ts";

interface TicketPlace {
  /** The tickets of another gateway. */
  connect(): Promise<TicketStore>;
  /** Let time pass for the tickets. */
  pass(ms: number): Promise<void>;
}

/** The contract of every ticket store. */
function ticketContract(name: string, open: () => Promise<TicketPlace>): void {
  describe(`tickets in ${name}`, () => {
    test("a ticket returns its grant unchanged, and once; an unknown one returns nothing", async () => {
      const tickets = await (await open()).connect();
      await tickets.put("one", '{"id":"ann ✓"}', 30_000);
      await tickets.put("two", '{"id":"bob"}', 30_000);
      expect(await tickets.redeem("one")).toBe('{"id":"ann ✓"}');
      expect(await tickets.redeem("one")).toBeUndefined();
      expect(await tickets.redeem("two")).toBe('{"id":"bob"}');
      expect(await tickets.redeem("made-up")).toBeUndefined();
    });

    test("a ticket is shared by all gateways, and only one of many callers gets it", async () => {
      const place = await open();
      const gateways = await Promise.all([place.connect(), place.connect()]);
      await gateways[0]!.put("one", "grant", 30_000);
      const taken = await Promise.all(Array.from({ length: 20 }, (_, index) => gateways[index % 2]!.redeem("one")));
      expect(taken.filter((grant) => grant !== undefined)).toEqual(["grant"]);
    });

    test("a ticket expires after its time", async () => {
      const place = await open();
      const tickets = await place.connect();
      await tickets.put("brief", "grant", 40);
      await tickets.put("long", "grant", 3_600_000);
      await place.pass(40);
      expect(await tickets.redeem("brief")).toBeUndefined();
      expect(await tickets.redeem("long")).toBe("grant");
    });
  });
}

ticketContract("memory", async () => {
  const clock = new VirtualClock();
  // All gateways of one process share one.
  const tickets = new MemoryTickets(clock);
  return { connect: async () => tickets, pass: (ms) => clock.advance(ms) };
});

describe("tickets in memory", () => {
  test("the number of tickets in memory is limited: the oldest is dropped", async () => {
    const tickets = new MemoryTickets(new VirtualClock());
    for (let index = 0; index < 10_001; index++) await tickets.put(`ticket-${index}`, "grant", 30_000);
    expect(await tickets.redeem("ticket-0")).toBeUndefined();
    expect(await tickets.redeem("ticket-1")).toBe("grant");
    expect(await tickets.redeem("ticket-10000")).toBe("grant");
  });
});

async function open(url: string, epoch: string): Promise<RedisTickets> {
  const tickets = await RedisTickets.open({ urls: [url], epoch, clock: new SystemClock() });
  onTestFinished(() => tickets.close());
  return tickets;
}

describeWith([REDIS], "over Redis", (start) => {
  const server = serverOf(start);

  ticketContract("Redis", async () => {
    const epoch = randomUUID();
    const { connection } = await open(server().url, epoch);
    return {
      connect: () => open(server().url, epoch),
      /** Redis has its own clock: poll it until the time is over. */
      async pass() {
        while ((await connection.exists(`${epoch}.ticket.brief`)) === 1);
      },
    };
  });

  test("a failure's message does not contain the ticket, although the driver's error does", async () => {
    const tickets = await open(server().url, "spoilt");
    await tickets.connection.rpush("spoilt.ticket.hidden", "no text");
    const vendors = await tickets.connection.getdel("spoilt.ticket.hidden").catch((error: unknown) => error);
    expect(inspect(vendors, { depth: 9 })).toContain("hidden");
    const ours = await tickets.redeem("hidden").catch((error: unknown) => error);
    expect(ours).toMatchObject({ code: "unavailable" });
    expect(inspect(ours, { depth: 9 })).not.toContain("hidden");
  });

  test("tickets of another store are unknown", async () => {
    const [ours, theirs] = [await open(server().url, "ours"), await open(server().url, "theirs")];
    await ours.put("one", "grant", 30_000);
    expect(await theirs.redeem("one")).toBeUndefined();
    expect(await ours.redeem("one")).toBe("grant");
  });
});

describeWith([REDIS_PROCESS], "over a frozen Redis", (start) => {
  test("tickets become unavailable within a short time", async () => {
    const server = await perTest(start)();
    const tickets = await open(server.url, "e");
    server.freeze();
    for (const asked of [tickets.put("hidden", "grant", 30_000), tickets.redeem("hidden")]) {
      await expect(asked).rejects.toMatchObject({ code: "unavailable" });
    }
    server.thaw();
    const there = () =>
      tickets.redeem("another").then(
        () => true,
        () => false,
      );
    while (!(await there()));
  });
});
