import { expect, test } from "vitest";
import { drawCharts } from "../../../page/build/draw-charts.ts";
import type { LogEvent } from "../../../page/log/log-event.ts";
import { arrowLabelOf, type Box } from "../../../page/machine/chart.ts";
import { acceptedIn, arrowOf, transitionIndex, transitionsOf } from "../../../page/machine/machine-state.ts";
import type { ServerEvent } from "../../../src/client/server-event.ts";
import { logEvent } from "../../support/documents/log-event.ts";

const [arbiter, session] = (await drawCharts()) as [Chart, Chart];
type Chart = Awaited<ReturnType<typeof drawCharts>>[number];
const [lifecycle, activity] = session.regions as [Chart["regions"][number], Chart["regions"][number]];

const transition = (seq: number, data: object, sessionId = "a"): unknown => ({
  ...logEvent(seq, "session_transition", data, sessionId),
  seq,
});

test("the page's charts have a place for each state and arrow, in both directions, and no two states overlap", () => {
  const overlaps = (one: Box, other: Box) =>
    one.x < other.x + other.width &&
    other.x < one.x + one.width &&
    one.y < other.y + other.height &&
    other.y < one.y + one.height;
  for (const region of [...arbiter.regions, ...session.regions]) {
    for (const layout of [region.wide, region.tall]) {
      const boxes = region.states.map(({ name }) => layout.states[name]!);
      for (const [index, box] of boxes.entries()) {
        expect(boxes.slice(index + 1).filter((other) => overlaps(box, other))).toEqual([]);
        expect(box.x + box.width).toBeLessThanOrEqual(layout.width);
        expect(box.y + box.height).toBeLessThanOrEqual(layout.height);
      }
      expect(layout.arrows).toHaveLength(region.arrows.length);
      expect(layout.arrows.filter(({ points }) => points.length < 2)).toEqual([]);
    }
  }
});

test("the page's charts draw a transition that several states share once, from a frame around them", () => {
  expect(lifecycle.framed).toEqual(["created", "active", "ducked", "paused"]);
  const ways = lifecycle.arrows.map(({ from, to }) => [from, to]);
  expect(ways).toContainEqual([lifecycle.framed, "archived"]);
  expect(ways).toContainEqual([["archived"], "deleted"]);
  expect(lifecycle.states.map(({ name }) => name)).not.toContain("entering");
  expect(ways[0]).toEqual([[], "created"]);
  expect(arbiter.regions[0]!.framed).toEqual([]);
});

test("an arrow of a chart has at most three labels, and the number of the others", () => {
  const words = (...events: string[]) => events.map((event) => ({ event }));
  expect(arrowLabelOf(words("a", "b", "c"))).toEqual(["a", "b", "c"]);
  expect(arrowLabelOf([...words("a", "b", "c", "d"), { event: "e", guard: "g" }])).toEqual(["a", "b", "c", "+2"]);
});

const labelsOf = (region: Chart["regions"][number], data: object) => {
  const taken = arrowOf(region, data as Parameters<typeof arrowOf>[1]);
  const arrow = taken === undefined ? undefined : region.arrows[taken];
  return arrow && [arrow.from, arrow.to, arrow.words.map(({ event, guard }) => event ?? guard)];
};

test("a transition highlights the arrow between its states that has its event", () => {
  expect(labelsOf(lifecycle, { from: "active.running", to: "paused", event: "preempt" })?.slice(0, 2)).toEqual([
    ["active"],
    "paused",
  ]);
  expect(labelsOf(lifecycle, { from: "paused", to: "archived", event: "expire" })).toEqual([
    ["paused"],
    "archived",
    ["expire"],
  ]);
  expect(labelsOf(lifecycle, { from: "paused", to: "archived", event: "archive" })?.[0]).toEqual(lifecycle.framed);
  expect(labelsOf(lifecycle, { from: "paused", to: "deleted", event: "delete" })?.[1]).toBe("deleted");
  expect(labelsOf(lifecycle, { from: "active.idle", to: "active.running", event: "turn" })).toBeUndefined();
});

test("a transition highlights an arrow of the activity too, even while the session is paused", () => {
  expect(labelsOf(activity, { from: "active.idle", to: "active.running", event: "turn" })?.[1]).toBe("running");
  expect(labelsOf(activity, { from: "ducked.waiting", to: "ducked.running", event: "answer" })?.[2]).toEqual([
    "hasNoInteraction",
  ]);
  const held = { from: "paused", to: "paused", event: "done", activity: { from: "running", to: "idle" } };
  expect(labelsOf(activity, held)?.[1]).toBe("idle");
  expect(labelsOf(lifecycle, held)).toBeUndefined();
});

test("a transition is found in the log up to a moment, and among the stream's newer events", () => {
  const log = [
    transition(1, { to: "active.idle" }),
    transition(2, { to: "x" }, "other"),
    transition(3, { to: "paused" }),
  ] as LogEvent[];
  const ahead = [transition(3, { to: "paused" }), transition(4, { to: "active.idle" })] as ServerEvent[];
  const of = (count: number, recent: ServerEvent[]) =>
    transitionsOf("a", log, transitionIndex().of(log).get("a")!, count, recent).map(({ seq }) => seq);
  expect(of(3, ahead)).toEqual([1, 3, 4]);
  expect(of(2, [])).toEqual([1]);
  expect(of(0, ahead)).toEqual([3, 4]);
});

test("a session accepts the events of its states, shown with their target states; refused events are listed separately", () => {
  const { accepted, refused } = acceptedIn(session, { lifecycle: "created", activity: "idle" });
  const to = new Map(accepted.map((each) => [each.event, each.to]));
  expect(to.get("session.archive")).toEqual(["archived"]);
  expect(to.get("activate")).toEqual(["active"]);
  expect(to.get("session.update")).toEqual([]);
  expect(to.has("session.pause")).toBe(false);
  expect(refused).toContainEqual({ event: "session.pause", code: "illegal_command" });
  expect(acceptedIn(session, { lifecycle: "paused", activity: "running" }).accepted).toContainEqual({
    event: "session.abort",
    to: ["idle"],
  });
  const external = acceptedIn(session, { lifecycle: "active", activity: "idle" }, true);
  expect(external.accepted.map(({ event }) => event)).not.toContain("session.chat");
  expect(external.refused).toContainEqual({ event: "session.chat", code: "illegal_command" });
  expect(acceptedIn(session, { lifecycle: "active", activity: "idle" }).accepted).toContainEqual(
    expect.objectContaining({ event: "session.chat" }),
  );
});
