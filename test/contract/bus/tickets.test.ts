import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { MemoryTickets } from "../../../src/bus/memory-tickets.ts";
import { RedisTickets } from "../../../src/bus/redis-tickets.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { REDIS, REDIS_PROCESS } from "../../support/servers/redis-server.ts";
import { perTest, serverOf } from "../../support/servers/shared-server.ts";
import { ticketContract } from "./tickets-contract.ts";

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
