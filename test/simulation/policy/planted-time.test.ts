/** Faults of time and of turns are found by catalogues that are made for them: random ones take minutes. */
import { expect, test } from "vitest";
import { DIRECTED_JUDGES, PLANTED, plantedWith } from "./planted-faults.ts";

/** Of time that is known too badly a story tells that does not replay, which the random catalogues show. */
const OF_STORIES = "moments a second back are long ago";
const DIRECTED = PLANTED.filter(({ kind, name }) => kind === "move" || (kind === "time" && name !== OF_STORIES));

test("without a fault nothing is found", async () => {
  expect(await plantedWith({ edits: [] }, DIRECTED_JUDGES)).toBeUndefined();
});

test.each(DIRECTED)("a planted fault is found: $name", async (fault) => {
  expect(await plantedWith(fault, DIRECTED_JUDGES)).toBeTypeOf("string");
});
