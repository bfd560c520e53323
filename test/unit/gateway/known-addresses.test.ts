import { expect, test } from "vitest";
import { KnownAddresses } from "../../../src/gateway/access/known-addresses.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const CALL = "call" as SessionId;
const place = (ownerId: string) => ({ sessionId: CALL, floorId: `u:${ownerId}` as FloorId, ownerId });
const HOUR_MS = 3_600_000;

test("a cached place is overwritten by the session that has the id now, and dropped when that is deleted", () => {
  const places = new KnownAddresses(new VirtualClock());
  for (const owner of ["ann", "bob"]) places.set(place(owner));
  expect(places.get(CALL)).toMatchObject(place("bob"));
  places.delete(CALL);
  expect(places.get(CALL)).toBeUndefined();
});

test("a cached place is dropped before its id may be used again, since another node may have deleted the session", async () => {
  const clock = new VirtualClock();
  const places = new KnownAddresses(clock);
  places.set(place("ann"));
  await clock.advance(HOUR_MS - 1);
  expect(places.get(CALL)).toBeDefined();
  await clock.advance(1);
  expect(places.get(CALL)).toBeUndefined();
});
