/** Every reachable state of larger floors. `every-floor.test.ts` has smaller ones, and planted faults. */

import { expect, test } from "vitest";
import { exploreFloor, type Floor, LARGE_FLOORS } from "../../support/floors/explored-floors.ts";

test.each(LARGE_FLOORS)("every step from every reachable state keeps the invariants: %s", (...floor) => {
  const { violations, isComplete } = exploreFloor(floor as unknown as Floor);
  expect(violations).toEqual([]);
  expect(isComplete).toBe(true);
});
