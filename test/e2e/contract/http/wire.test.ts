import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { playWire } from "../../../support/nodes/wire-history.ts";

/**
 * The output of the release before sessions could be heard together, for a history without any of the new keys:
 * `test/support/nodes/wire-history.ts`, run in that release. Clients of that release get the same from today's node,
 * and one event more: a user's pause of a session that is paused by preemption.
 */
const RECORDED = readFileSync(new URL("../../../support/nodes/recorded-wire.txt", import.meta.url), "utf8").trimEnd();

const partsOf = (wire: string) => {
  const [answers, ...streams] = wire.split(/^(?=stream of )/m);
  return { answers: answers!.trim().split("\n\n"), streams };
};
/** The request, the status, and the answer as a value, because `session` is the last key of an answer since then. */
const readAnswer = (answer: string) => {
  const [, request, status, body] = /^([^\n]*)\n(\d+) (.*)$/s.exec(answer)!;
  return { request, status, body: JSON.parse(body!) };
};

describe("a catalogue without the keys for hearing sessions together", () => {
  let today: ReturnType<typeof partsOf>;
  beforeAll(async () => {
    today = partsOf(await playWire());
  });
  const recorded = partsOf(RECORDED);

  test("streams of sessions and of their floor are unchanged, byte by byte", () => {
    expect(recorded.streams).toHaveLength(6);
    expect(today.streams.join("")).toBe(recorded.streams.join(""));
  });

  test("answers have unchanged fields and values, and no additional ones", () => {
    expect(recorded.answers.length).toBeGreaterThan(35);
    expect(today.answers.map(readAnswer)).toEqual(recorded.answers.map(readAnswer));
  });
});
