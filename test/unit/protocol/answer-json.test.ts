import { expect, test } from "vitest";
import { answerJson, sessionJson } from "../../../src/protocol/session-json.ts";
import { makeSession } from "../../support/stores/floor-writer.ts";

test("an answer's JSON equals that of JSON.stringify, with a session and without one", () => {
  const session = makeSession("a", { title: 'quotes " and \u2028 and \ud800' });
  for (const answer of [
    { ok: true, session, seq: 3, none: undefined },
    { session },
    { session: undefined, ok: true },
    { ok: false, code: "rejected", facts: { of: [1, null, "x"] } },
    {},
  ]) {
    expect(JSON.parse(answerJson(answer))).toEqual(JSON.parse(JSON.stringify(answer)));
  }
});

test("a session's JSON is generated once", () => {
  let reads = 0;
  const session = Object.defineProperty(makeSession("a"), "title", {
    enumerable: true,
    get: () => {
      reads += 1;
      return "counted";
    },
  });
  expect(JSON.parse(sessionJson(session)).title).toBe("counted");
  answerJson({ ok: true, session });
  sessionJson(session);
  expect(reads).toBe(1);
});
