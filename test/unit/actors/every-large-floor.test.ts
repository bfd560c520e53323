/** Every reachable state of larger floors. `every-floor.test.ts` has smaller ones, and planted faults. */

import { expect, test } from "vitest";
import { exploreFloor, type Floor, LARGE_FLOORS } from "../../support/floors/explored-floors.ts";

/** In ms. It computes without a pause: for a minute on a machine that does nothing else. */
const ENDS_WITHIN = 900_000;

test.each(LARGE_FLOORS)(
  "every step from every reachable state keeps the invariants: %s",
  (...floor) => {
    const { violations, isComplete } = exploreFloor(floor as unknown as Floor);
    expect(violations).toEqual([]);
    expect(isComplete).toBe(true);
  },
  ENDS_WITHIN,
);
