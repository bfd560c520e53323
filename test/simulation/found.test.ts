import { describe, expect, test } from "vitest";
import { makeCatalog } from "../support/catalog.ts";
import { FloorStage } from "../support/floor-stage.ts";

/** Faults that histories met, each in the few steps that are needed for it. */

describe("turns that wait while their session is paused", () => {
  const agents = [
    { name: "music", priority: 20, when_busy: "enqueue", adapter: { kind: "scripted", yields: "hold" } },
    { name: "phone", priority: 90 },
  ];

  /** A paused session whose run has ended, and in which a turn waits. */
  function waiting(): FloorStage {
    const floor = new FloorStage(makeCatalog(agents));
    floor.create("music");
    floor.chat("music", "m1");
    floor.claim("music", "run-m1");
    floor.chat("music", "m2");
    floor.on("music", "pause");
    floor.report("music", "run-m1", 1, { outcome: { kind: "done" } });
    return floor;
  }

  test("come before the turn that gets the floor back", () => {
    const floor = waiting();
    expect(floor.chat("music", "m3")).toMatchObject({ ok: true, messageId: "m3", decision: { outcome: "granted" } });
    expect(floor.state("music")).toBe("active.running");
    expect(floor.actors.standing("music" as never)?.context).toMatchObject({
      run: { id: "run-m2" },
      turns: [{ runId: "run-m3" }],
    });
    floor.claim("music", "run-m2");
    floor.report("music", "run-m2", 1, { outcome: { kind: "done" } });
    floor.claim("music", "run-m3");
    floor.report("music", "run-m3", 1, { outcome: { kind: "done" } });
    expect(floor.events("complete").map(({ runId }) => runId)).toEqual(["run-m1", "run-m2", "run-m3"]);
  });

  test("begin when there is no room for the one that gets the floor back", () => {
    const floor = waiting();
    // Sixteen may wait.
    floor.on("music", "resume");
    for (let nth = 3; nth < 19; nth++) floor.chat("music", `m${nth}`);
    floor.on("music", "pause");
    floor.claim("music", "run-m2");
    floor.on("music", "abort");
    expect(floor.state("music")).toBe("paused");
    expect(floor.chat("music", "m99")).toMatchObject({ ok: false, code: "agent_busy" });
    expect(floor.actors.standing("music" as never)?.context.run?.id).toBe("run-m3");
  });
});

describe("a queued session that is about to be woken when its time is up", () => {
  const agents = [
    { name: "chat", priority: 10, when_blocked: "queue", queue_timeout: "30s" },
    { name: "phone", priority: 90, interruptible: false },
  ];

  /** The phone is gone, and the chat will be woken in a second; its wait ends now. */
  function reserved(): FloorStage {
    const floor = new FloorStage(makeCatalog(agents, { policy: { resume_delay: "1s" } }));
    floor.create("phone");
    floor.create("chat");
    const [limit] = timersOf(floor);
    floor.now += 30_000;
    floor.on("phone", "archive");
    floor.ask({ type: "timer", timerId: limit! });
    return floor;
  }

  const timersOf = (floor: FloorStage) =>
    floor.facts.flatMap((fact) => (fact.type === "effect.add" ? [fact.effect.id] : []));

  test("is woken all the same", () => {
    const floor = reserved();
    const [, wake] = timersOf(floor);
    floor.now += 1_000;
    floor.ask({ type: "timer", timerId: wake! });
    expect(floor.state("chat")).toBe("active.idle");
  });

  test("leaves the queue when another comes before it", () => {
    const floor = reserved();
    floor.create("phone", { id: "second" });
    expect(floor.state("second")).toBe("active.idle");
    floor.now += 1_000;
    floor.ask({ type: "timer", timerId: timersOf(floor).at(-1)! });
    expect(floor.events("arbitration").at(-1)).toMatchObject({ outcome: "rejected", reason: "queue_timeout" });
    expect(floor.actors.context.floor.queued).toEqual([]);
  });
});
