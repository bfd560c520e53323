import { expect, test } from "vitest";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { FLOOR_HASHES, floorHash } from "../../../src/protocol/internal/hash.ts";

test("a floor's hash never changes, because it is stored in rows", () => {
  const hashes = ["u:ann", "u:ann/driver", "u:%E5%AE%89", "s:abc"].map((id) => floorHash(id as FloorId));
  expect(hashes).toEqual([238, 175, 142, 99]);
});

test("the hashes of floors with similar names spread over all values", () => {
  const counts = Array<number>(FLOOR_HASHES).fill(0);
  for (let n = 0; n < 100 * FLOOR_HASHES; n++) {
    const hash = floorHash(`u:user${n}` as FloorId);
    counts[hash]! += 1;
  }
  expect(Math.min(...counts)).toBeGreaterThan(50);
  expect(Math.max(...counts)).toBeLessThan(150);
});
