import { describe, expect, test } from "vitest";
import type { TicketStore } from "../../../src/bus/ticket-store.ts";

interface TicketPlace {
  /** The tickets of another gateway. */
  connect(): Promise<TicketStore>;
  /** Let time pass for the tickets. */
  pass(ms: number): Promise<void>;
}

/** The contract of every ticket store. */
export function ticketContract(name: string, open: () => Promise<TicketPlace>): void {
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
