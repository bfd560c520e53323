import { describe, expect, test } from "vitest";
import type { Decision } from "../../../src/protocol/decision.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import { carCatalog } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";

/** The table of cases of docs/use/arbitration.md on sessions that are heard together, row by row. */

class Car extends FloorStage {
  constructor(catalog = carCatalog()) {
    super(catalog);
  }

  /** The result of a command: its decision, and each transition with its new level. */
  hear(does: () => unknown): { decision: Decision | undefined; heard: string[] } {
    const before = this.facts.length;
    const reply = does() as Reply | undefined;
    const heard = this.facts.slice(before).flatMap((fact) => {
      if (fact.type !== "event" || fact.event.type !== "session_transition") return [];
      const { event, to, level } = fact.event.data as { event: string; to: string; level?: number };
      return [`${fact.event.sessionId} ${event} ${to}${level === undefined ? "" : ` ${level}`}`];
    });
    return { decision: reply && decisionOf(reply), heard };
  }

  flags(flags: Record<string, boolean>) {
    return this.hear(() => this.ask({ type: "floor.flags", flags }));
  }

  start(agentId: string, id: string) {
    return this.hear(() => this.create(agentId, { id }));
  }

  end(id: string) {
    return this.hear(() => this.on(id, "archive"));
  }
}

describe("a session whose agent becomes critical", () => {
  const agents = [
    { name: "phone", priority: 90, interruptible: false },
    { name: "chat", priority: 10, when_blocked: "queue", queue_timeout: "30s" },
    { name: "music", priority: 20 },
    { name: "ecall", priority: 50, critical: true },
  ];
  const switchAgent = (floor: FloorStage, sessionId: string, agentId: string) => {
    const reply = floor.ask({ type: "session.switch_agent", sessionId, agentId });
    expect(reply).toMatchObject({ ok: true, outcome: { currentAgentId: agentId } });
  };

  test("a queued session whose agent becomes critical is heard at once, and leaves the queue", () => {
    const floor = new FloorStage(makeCatalog(agents));
    floor.create("phone");
    floor.create("chat");
    expect(floor.actors.context.floor.queued).toHaveLength(1);
    switchAgent(floor, "chat", "ecall");
    expect([floor.state("chat"), floor.state("phone")]).toEqual(["ducked.idle", "active.idle"]);
    expect(floor.actors.context.floor.queued).toEqual([]);
  });

  test("a silenced session whose agent becomes critical is heard again at once", () => {
    const floor = new FloorStage(makeCatalog(agents));
    floor.create("music");
    floor.create("phone");
    switchAgent(floor, "music", "ecall");
    expect([floor.state("music"), floor.state("phone")]).toEqual(["ducked.idle", "active.idle"]);
    expect(floor.actors.context.floor.ducked).toMatchObject([{ level: 0 }]);
  });

  test("a silenced session whose agent becomes critical is heard beneath the holder, also if it silences another", () => {
    const heard = { when_preempted: "duck", when_blocked: "duck", interruptible: false };
    const floor = new FloorStage(
      makeCatalog([
        { name: "phone", priority: 90, beneath: { dialog: -6 } },
        { name: "dialog", priority: 20, ...heard },
        { name: "music", priority: 50 },
        { name: "ecall", priority: 50, critical: true },
      ]),
    );
    floor.create("music");
    floor.create("phone");
    floor.create("dialog");
    switchAgent(floor, "music", "ecall");
    expect(["phone", "music", "dialog"].map((id) => floor.state(id))).toEqual(["active.idle", "ducked.idle", "paused"]);
  });

  test("a ducked session whose agent becomes critical has its own volume, even while the floor is reserved", () => {
    const floor = new FloorStage(
      makeCatalog(
        [
          { name: "phone", priority: 90, beneath: { all: -14 } },
          { name: "dialog", priority: 20, when_preempted: "duck", when_blocked: "duck" },
          { name: "ecall", priority: 50, critical: true },
        ],
        { policy: { resume_delay: "1s" } },
      ),
    );
    floor.create("phone");
    floor.create("dialog");
    floor.on("phone", "archive");
    expect(floor.actors.context.floor).toMatchObject({ reserved: { sessionId: "dialog" }, ducked: [{ level: -14 }] });
    switchAgent(floor, "dialog", "ecall");
    expect(floor.actors.context.floor).toMatchObject({ reserved: { sessionId: "dialog" }, ducked: [{ level: 0 }] });
    expect(floor.actors.machineState("dialog" as never)?.context.level).toBe(0);
  });

  test("a session that its user paused stays paused when its agent becomes critical", () => {
    const floor = new FloorStage(makeCatalog(agents));
    floor.create("music");
    floor.on("music", "pause");
    floor.create("phone");
    switchAgent(floor, "music", "ecall");
    expect([floor.state("music"), floor.state("phone")]).toEqual(["paused", "active.idle"]);
  });
});

describe("a prompt", () => {
  test("a prompt ducks music that can be ducked, and the music returns to its volume when the prompt ends", () => {
    const car = new Car();
    car.start("music_agent", "M");
    const { decision, heard } = car.start("prompt_agent", "V");
    expect(heard).toEqual(["M duck ducked.idle -14", "V activate active.idle"]);
    expect(decision).toMatchObject({
      outcome: "granted",
      reason: "preempted",
      rule: 7,
      effects: [{ sessionId: "M", agentId: "music_agent", becomes: "ducked", level: -14 }],
    });
    expect(car.end("V").heard).toEqual(["V archive archived", "M resume active.idle"]);
  });

  test("the sentence for a prompt says that the music continues, not that it is paused", () => {
    const spoken = (catalog = carCatalog()) => {
      const car = new Car(catalog);
      car.start("music_agent", "M");
      return car.start("prompt_agent", "V").decision?.say;
    };
    expect(spoken()).toBe("Music Agent goes on beneath Prompt Agent.");
    const agents = [
      { name: "music_agent", priority: 20, when_preempted: "duck", messages: { ducked: "Quieter for {challenger}." } },
      { name: "prompt_agent", priority: 80, beneath: { all: -14 } },
    ];
    expect(spoken(makeCatalog(agents))).toBe("Quieter for Prompt Agent.");
    const silenced = new Car();
    silenced.start("music_agent", "M");
    expect(silenced.start("phone_agent", "P").decision?.say).toBe("Music Agent is paused for Phone Agent.");
  });

  test("a prompt leaves the music's run unchanged: the run is not held, ended or restarted", () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.chat("M", "m1");
    car.claim("M", "run-m1");
    const before = car.facts.length;
    car.start("prompt_agent", "V");
    car.report("M", "run-m1", 1);
    car.end("V");
    const about = car.facts.slice(before).filter((fact) => fact.type === "signal" || fact.type.startsWith("effect."));
    expect(about).toEqual([]);
    expect(car.state("M")).toBe("active.running");
  });

  test("a prompt is heard during a call that allows it, and its end does not affect the call", () => {
    const car = new Car();
    car.start("music_agent", "M");
    expect(car.start("phone_agent", "C").heard).toEqual(["M preempt paused", "C activate active.idle"]);
    const { decision, heard } = car.start("prompt_agent", "V");
    expect(heard).toEqual(["V duck ducked.idle 0"]);
    expect(decision).toMatchObject({ outcome: "granted", reason: "beneath", rule: 12, level: 0 });
    expect(car.end("V").heard).toEqual(["V archive archived"]);
    expect(car.state("M")).toBe("paused");
  });

  test("a prompt is rejected during a call that does not allow it, and nothing else changes", () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.start("plain_phone", "X");
    const { decision, heard } = car.start("prompt_agent", "V");
    expect(decision).toMatchObject({ outcome: "rejected", reason: "lower_priority", rule: 5 });
    expect(heard).toEqual([]);
  });

  test("a prompt and the music are both silenced by a call at the prompt's threshold that allows neither", () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.start("prompt_agent", "V");
    const { heard } = car.start("plain_phone", "X");
    expect(heard.toSorted()).toEqual(
      ["V preempt paused", "M preempt paused", "X activate active.idle", "V expire archived"].toSorted(),
    );
  });

  test("a prompt continues ducked beneath the driver's words although it is not interruptible", () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.start("prompt_agent", "V");
    const { decision, heard } = car.start("listen_agent", "L");
    expect(decision).toMatchObject({ outcome: "granted", reason: "preempted", rule: 7 });
    expect(heard).toEqual(["V duck ducked.idle -24", "M duck ducked.idle -24", "L activate active.idle"]);
    expect(car.end("L").heard).toEqual(["L archive archived", "M duck ducked.idle -14", "V resume active.idle"]);
  });
});

test("without the keys for hearing sessions together, the music is paused before the prompt and resumes after it", () => {
  const car = new Car();
  car.start("plain_music", "M");
  expect(car.start("prompt_agent", "V").heard).toEqual(["M preempt paused", "V activate active.idle"]);
  expect(car.end("V").heard).toEqual(["V archive archived", "M resume active.idle"]);
});

test("an agent that replaces another ends the other's session, regardless of ties", () => {
  const car = new Car();
  car.start("music_agent", "M");
  const { decision, heard } = car.start("podcast_agent", "P");
  expect(decision).toMatchObject({
    outcome: "granted",
    reason: "replaced",
    rule: 11,
    effects: [{ sessionId: "M", becomes: "archived" }],
  });
  expect(heard).toEqual(["M archive archived", "P activate active.idle"]);
});

describe("a critical session", () => {
  test("a critical session pauses a holder that is not interruptible, and blocks all other sessions", () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.start("navigation", "N");
    const { decision, heard } = car.start("ecall_agent", "E");
    expect(decision).toMatchObject({ outcome: "granted", reason: "critical", rule: 10 });
    expect(heard).toEqual(["N preempt paused", "E activate active.idle"]);
    expect(car.start("chat", "T").decision).toMatchObject({ outcome: "rejected", reason: "lower_priority", rule: 5 });
    expect(car.end("E").heard).toEqual(["E archive archived", "N resume active.idle"]);
    expect(car.state("M")).toBe("paused");
  });

  test("a critical session that allows every other session leaves a call where it is", () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.start("quiet_phone", "X");
    expect(car.start("chime_agent", "B").heard.slice(0, 2)).toEqual(["X duck ducked.idle 0", "B activate active.idle"]);
    expect(car.end("B").heard.at(-1)).toBe("X resume active.idle");
  });

  test("a critical session starts ducked beneath a session of higher priority, and takes the floor when that one ends", () => {
    const car = new Car();
    car.start("ecall_agent", "E");
    const { decision, heard } = car.start("chime_agent", "B");
    expect(decision).toMatchObject({ outcome: "granted", reason: "beneath", rule: 12, level: 0 });
    expect(heard).toEqual(["B duck ducked.idle 0"]);
    expect(car.end("E").heard).toEqual(["E archive archived", "B resume active.idle"]);
  });
});

describe("a restriction", () => {
  test("a restriction pauses the music while it is on, refuses other sessions, and resumes the music when it is off", () => {
    const car = new Car();
    car.start("music_agent", "M");
    expect(car.flags({ reverse_gear: true }).heard).toEqual(["M preempt paused"]);
    expect(car.start("chat", "T").decision).toMatchObject({
      outcome: "rejected",
      reason: "restricted",
      rule: 9,
      wouldNeed: "reverse_gear to be off, or chat in reverse's allow",
    });
    expect(car.start("prompt_agent", "V").decision).toMatchObject({ outcome: "granted", rule: 4 });
    expect(car.end("V").heard).toEqual(["V archive archived"]);
    expect(car.state("M")).toBe("paused");
    expect(car.flags({}).heard).toEqual(["M resume active.idle"]);
  });

  test("a restriction that ends other sessions ends every session that is heard except critical ones", () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.start("prompt_agent", "V");
    expect(car.flags({ user_switched: true }).heard).toEqual(["V archive archived", "M archive archived"]);
    expect(car.start("chime_agent", "B").decision).toMatchObject({ outcome: "granted", rule: 4 });
    car.end("B");
    expect(car.flags({}).heard).toEqual([]);
  });
});

describe("a ducked session", () => {
  const ducked = () => {
    const car = new Car();
    car.start("music_agent", "M");
    car.start("prompt_agent", "V");
    return car;
  };

  test("a ducked session that requests the floor is rejected and stays ducked", () => {
    const car = ducked();
    const { decision, heard } = car.hear(() => car.on("M", "activate"));
    expect(decision).toMatchObject({ outcome: "rejected", reason: "lower_priority" });
    expect(heard).toEqual([]);
    expect(car.state("M")).toBe("ducked.idle");
  });

  test("a ducked session takes a turn without changing its place", () => {
    const car = ducked();
    expect(car.chat("M", "m1")).toMatchObject({ ok: true });
    expect(car.state("M")).toBe("ducked.running");
  });

  test("a ducked session can be paused, aborted and archived like an active one", () => {
    const car = ducked();
    car.chat("M", "m1");
    expect(car.hear(() => car.on("M", "abort")).heard).toEqual(["M abort ducked.idle -14"]);
    expect(car.hear(() => car.on("M", "pause")).heard).toEqual(["M pause paused"]);
    car.end("V");
    expect(car.state("M")).toBe("paused");
    const other = ducked();
    expect(other.end("M").heard).toEqual(["M archive archived"]);
    expect(other.state("V")).toBe("active.idle");
  });

  test("a ducked session has the same state after a restart", () => {
    const car = ducked();
    car.restart();
    expect(car.state("M")).toBe("ducked.idle");
    expect(car.end("V").heard).toEqual(["V archive archived", "M resume active.idle"]);
  });
});

test("a floor ducks no more sessions than max_paused allows", () => {
  const agents = [
    { name: "front", priority: 50, beneath: { all: -14 } },
    { name: "low", priority: 20, beneath: { low: 0 }, when_preempted: "duck", when_blocked: "duck" },
  ];
  const stage = new FloorStage(makeCatalog(agents, { policy: { max_paused: 2 } }));
  stage.create("front");
  for (const id of ["one", "two"]) {
    expect(decisionOf(stage.create("low", { id }))).toMatchObject({ outcome: "granted", reason: "beneath" });
  }
  expect(decisionOf(stage.create("low", { id: "three" }))).toMatchObject({
    outcome: "rejected",
    reason: "lower_priority",
  });
  expect(stage.actors.context.floor.ducked).toHaveLength(2);
});
