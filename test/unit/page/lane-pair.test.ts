import { expect, test } from "vitest";
import { pictureOf } from "../../../page/policy/lane-pair.ts";
import type { ReplayAnswer } from "../../../src/client/answers.ts";
import { AT, logEvent } from "../../support/documents/log-event.ts";

const events = ["a", "b", "c", "d"].map((id, index) =>
  logEvent(index, "session_created", { id, title: id, agentId: "music" }, id),
);

test("two pictures have the same rows: as many as fit, with those that become otherwise, and then the newest", () => {
  const about = { differing: 2, from: AT, to: AT + 9_000 };
  const differences = ["a", "d"].map((sessionId) => ({ at: AT, agentId: "music", sessionId }));
  const replayed = { ...about, differences, before: events, after: events.slice(1) } as unknown as ReplayAnswer;
  const { before, after, shown, left } = pictureOf(replayed, 3);
  const rowsOf = ({ lanes }: typeof before) => lanes.map(({ sessionId }) => sessionId);
  expect(rowsOf(before)).toEqual(["a", "c", "d"]);
  expect(rowsOf(after)).toEqual(rowsOf(before));
  expect([shown, left]).toEqual([3, 1]);
});
