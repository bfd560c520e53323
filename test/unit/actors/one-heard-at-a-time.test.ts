import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { FloorActors } from "../../../src/actors/host/floor-actors.ts";
import { BrokenSnapshot, readSnapshot } from "../../../src/actors/host/snapshot.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { HISTORY, play, recordedCatalog } from "../../support/floors/floor-recording.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

/**
 * The recording of a release without `beneath`, `critical` and similar keys: the events and answers of each command of
 * a history, and the snapshot after its first half, byte for byte. `test/support/floors/floor-recording.ts` contains
 * the history. One line has been changed on purpose since: an archived session keeps the timer of an attempt that is
 * being stopped, to receive its last report.
 */
const RECORDED = readFileSync(new URL("../../support/floors/recorded-floor.jsonl", import.meta.url), "utf8")
  .trim()
  .split("\n");
const [FIRST, SECOND] = HISTORY;
const BEFORE = RECORDED.slice(0, FIRST.length);
const AFTER = RECORDED.slice(FIRST.length + 1);
const { snapshot: SNAPSHOT } = JSON.parse(RECORDED[FIRST.length]!) as { snapshot: string };

test("a catalogue without the keys for hearing sessions together decides and answers as it did before", () => {
  const stage = new FloorStage(recordedCatalog());
  expect(play(stage, FIRST)).toEqual(BEFORE);
  expect(play(stage, SECOND)).toEqual(AFTER);
});

test("a floor that the previous release stored is restored, and continues as it would have there", () => {
  const stage = new FloorStage(recordedCatalog());
  play(stage, FIRST);
  const { actors, lastNow } = readSnapshot({ version: 1, head: 1, snapshot: SNAPSHOT, format: 1 });
  expect(lastNow).toBe(stage.now);
  stage.actors = new FloorActors("u:ann" as FloorId, actors);
  expect(stage.actors.context.floor.ducked).toEqual([]);
  // Sessions that do not compete have separate rows; the recorded second half names none of them.
  expect(play(stage, SECOND)).toEqual(AFTER);
});

test("a snapshot of the former release without a floor is refused with the reason", () => {
  const record = { version: 1, head: 1, snapshot: SNAPSHOT.replace('"floor":', '"flor":'), format: 1 };
  expect(() => readSnapshot(record)).toThrow(BrokenSnapshot);
});
