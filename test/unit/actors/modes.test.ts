import { expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

const adapter = { kind: "ai-sdk", provider: "openai", model: "m" };
const modes = (...names: string[]) => names.map((name) => ({ name }));
const open = () => {
  const floor = new FloorStage(makeCatalog([{ name: "model", when_busy: "enqueue", modes: modes("a", "b"), adapter }]));
  floor.create("model");
  return floor;
};
const toMode = (floor: FloorStage, mode: string) =>
  floor.ask({ type: "session.update", sessionId: "model", settings: { mode } });
const modeOf = (floor: FloorStage, runId: string) => {
  const reply = floor.claim("model", runId);
  return reply.ok && reply.task && !reply.task.purpose ? reply.task.mode : "no task";
};

test("a turn keeps the mode in which it began; a waiting turn begins in the newest mode", () => {
  const floor = open();
  floor.chat("model", "m1");
  floor.chat("model", "m2");
  expect(toMode(floor, "b")).toMatchObject({ ok: true, session: { mode: "b" } });
  expect(modeOf(floor, "run-m1")).toBeUndefined();
  floor.restart();
  floor.report("model", "run-m1", 1, { outcome: { kind: "done" } });
  expect(modeOf(floor, "run-m2")).toBe("b");
});

test("one command changes several settings, or none; a mode that the session already has is not logged again", () => {
  const floor = open();
  const update = (settings: object) => floor.ask({ type: "session.update", sessionId: "model", settings });
  toMode(floor, "b");
  toMode(floor, "b");
  expect(update({ title: "Jazz", mode: "a" })).toMatchObject({ ok: true, session: { title: "Jazz", mode: "a" } });
  update({ title: "Blues", mode: "a" });
  expect(update({ title: "Rock", mode: "none" })).toMatchObject({ ok: false, code: "bad_request" });
  const changes = [{ mode: "b" }, { title: "Jazz", mode: "a" }, { title: "Blues" }];
  expect(floor.events("session_updated")).toEqual(changes);
});

test("a session whose mode a reload removed gets the first mode", () => {
  const floor = open();
  toMode(floor, "b");
  floor.catalog = makeCatalog([{ name: "model", modes: modes("a"), adapter }]);
  expect(toMode(floor, "b")).toMatchObject({
    ok: false,
    code: "bad_request",
    facts: { issues: [{ path: "mode", message: "the agent has no mode b; its modes are a" }] },
  });
});
