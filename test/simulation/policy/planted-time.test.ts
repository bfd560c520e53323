/** Faults of time are found by catalogues that are made for them: random ones take minutes. */
import { expect, test } from "vitest";
import { PLANTED, plantedWith, TIME_JUDGES } from "./planted-faults.ts";

/** Of time that is known too badly a story tells that does not replay, which the random catalogues show. */
const OF_STORIES = "moments a second back are long ago";
const OF_TIME = PLANTED.filter(({ kind, name }) => kind === "time" && name !== OF_STORIES);

test("without a fault nothing is found", async () => {
  expect(await plantedWith({ edits: [] }, TIME_JUDGES)).toBeUndefined();
});

test.each(OF_TIME)("a planted fault of time is found: $name", async (fault) => {
  expect(await plantedWith(fault, TIME_JUDGES)).toBeTypeOf("string");
});
