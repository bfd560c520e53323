import { expect, test } from "vitest";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { PARTITIONS, partitionOf } from "../../../src/protocol/internal/partition.ts";

test("a floor's partition never changes: rows name it", () => {
  const partitions = ["u:ann", "u:ann/driver", "u:%E5%AE%89", "s:abc"].map((id) => partitionOf(id as FloorId));
  expect(partitions).toEqual([238, 175, 142, 99]);
});

test("floors with similar names are spread over all partitions", () => {
  const counts = Array<number>(PARTITIONS).fill(0);
  for (let n = 0; n < 100 * PARTITIONS; n++) {
    const partition = partitionOf(`u:user${n}` as FloorId);
    counts[partition]! += 1;
  }
  expect(Math.min(...counts)).toBeGreaterThan(50);
  expect(Math.max(...counts)).toBeLessThan(150);
});
