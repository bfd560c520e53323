import { describe, expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

const AGENTS = [
  { name: "prompt", priority: 80, max_hold: "20s", beneath: { all: -14 }, when_preempted: "duck" },
  { name: "call", priority: 90, beneath: { prompt: 0 } },
  { name: "music", priority: 20, when_preempted: "duck" },
];

function begin() {
  const stage = new FloorStage(makeCatalog(AGENTS));
  stage.create("music");
  stage.create("prompt");
  return stage;
}

describe("max_hold", () => {
  test("a holder yields after max_hold, and the next session gets the floor", () => {
    const stage = begin();
    stage.pass(19_999);
    expect(stage.state("prompt")).toBe("active.idle");
    stage.pass(1);
    expect(stage.view("prompt")).toMatchObject({ state: "paused", pausedBy: "yield" });
    expect(stage.state("music")).toBe("active.idle");
    expect(stage.events("session_transition").at(-2)).toMatchObject({ event: "yield", reason: "max_hold" });
    expect(stage.due).toBeUndefined();
  });

  test("max_hold counts as long as the session is heard, in front or beneath, over changes between the two", () => {
    const stage = begin();
    stage.pass(10_000);
    stage.create("call");
    expect(stage.state("prompt")).toBe("ducked.idle");
    stage.pass(4_000);
    stage.on("call", "archive");
    expect(stage.state("prompt")).toBe("active.idle");
    stage.create("call", { id: "second" });
    stage.pass(5_999);
    expect(stage.state("prompt")).toBe("ducked.idle");
    stage.pass(1);
    expect(stage.view("prompt")).toMatchObject({ state: "paused", pausedBy: "yield" });
  });

  test("max_hold begins anew when the session is heard again, and ends with it", () => {
    const stage = begin();
    stage.pass(10_000);
    stage.on("prompt", "pause");
    expect(stage.due).toBeUndefined();
    stage.on("prompt", "resume");
    expect(stage.due).toBe(stage.now + 20_000);
    stage.on("prompt", "archive");
    expect(stage.due).toBeUndefined();
  });

  test("max_hold survives a restart of the node", () => {
    const stage = begin();
    stage.restart();
    stage.pass(20_000);
    expect(stage.state("prompt")).toBe("paused");
  });
});
