import { describe, expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorStage, type LooseCommand } from "../../support/floors/floor-stage.ts";
import { persistWhole } from "../../support/floors/persisted-floor.ts";
import { Chance } from "../../support/runner/chance.ts";
import { minutesOf } from "../../support/schedules/minute-walk.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const BERLIN = "Europe/Berlin";

type Schedule = Extract<LooseCommand, { type: "session.schedule" }>["schedule"];

const AGENTS = [
  {
    ...{ name: "alarm", priority: 60, when_blocked: "queue", queue_timeout: "30s", idle_timeout: "1m" },
    ...{ modes: [{ name: "loud" }, { name: "soft" }], adapter: { kind: "ai-sdk", provider: "openai", model: "m" } },
  },
  { name: "news", priority: 10, idle_timeout: "1m" },
  { name: "player", priority: 50, adapter: { kind: "external" } },
  { name: "call", priority: 90 },
  { name: "off", priority: 60, enabled: false },
];

/** A floor on the noon of a New Year's Day. */
const stage = () => new FloorStage(makeCatalog(AGENTS));

function schedule(floor: FloorStage, sessionId: string, schedule: Schedule, agentId = "alarm", title?: string) {
  const session = { sessionId, agentId, userId: "ann", ...(title !== undefined && { title }) };
  return floor.ask({ type: "session.create", sessionId, session, activate: false, schedule });
}

/** The times that have come, without the sessions that a series made for them. */
const firedOf = (floor: FloorStage) => floor.events("session_updated").flatMap((data) => data["fired"] ?? []);

test("a session asks for the floor at its time, once, and its time is over then", () => {
  const floor = stage();
  expect(schedule(floor, "a", { at: floor.now + HOUR })).toMatchObject({ ok: true });
  expect(floor.view("a")).toMatchObject({ state: "created", schedule: { at: floor.now + HOUR } });
  floor.pass(HOUR - 1);
  expect(floor.state("a")).toBe("created");
  floor.pass(1);
  expect(floor.state("a")).toBe("active.idle");
  expect(floor.view("a")).not.toHaveProperty("schedule");
  expect(firedOf(floor)).toEqual([{ at: floor.now, lateMs: 0 }]);
  expect(floor.actors.nextRing()).toBeUndefined();
  floor.pass(DAY);
  expect(firedOf(floor)).toHaveLength(1);
});

test("a while counts from the command, on the wall clock", () => {
  const floor = stage();
  floor.wallAheadMs = 5 * DAY;
  schedule(floor, "a", { inMs: 10 * MINUTE });
  expect(floor.view("a")?.schedule).toEqual({ at: floor.now + 5 * DAY + 10 * MINUTE });
  floor.pass(10 * MINUTE);
  expect(floor.state("a")).toBe("active.idle");
});

test("its message starts a turn at its time, and names the session", () => {
  const floor = stage();
  schedule(floor, "a", { inMs: MINUTE, content: "Good morning!" });
  expect(floor.view("a")).toMatchObject({ messageCount: 0, schedule: { content: "Good morning!" } });
  const facts = floor.factsOf(() => floor.pass(MINUTE));
  expect(floor.state("a")).toBe("active.running");
  expect(floor.view("a")).toMatchObject({ title: "Good morning!", messageCount: 1 });
  expect(facts.filter(({ type }) => type === "run_request.add")).toHaveLength(1);
  // As any message that asks for the floor: the decision, the transition, then the turn.
  expect(facts.flatMap((fact) => (fact.type === "event" ? fact.event.type : []))).toEqual([
    "session_updated",
    "arbitration",
    "session_transition",
    "session_updated",
    "session_transition",
  ]);
});

describe("refused at its time", () => {
  const refused = (agentId: string, wanted: Schedule = { inMs: MINUTE }) => {
    const floor = stage();
    floor.create("call");
    schedule(floor, "a", wanted, agentId);
    floor.pass(MINUTE);
    return floor;
  };

  test("a session waits in the queue if its agent does, for its queue_timeout", () => {
    const floor = refused("alarm");
    expect(floor.view("a")).toMatchObject({ state: "created", queuedAt: floor.now });
    floor.pass(30_000);
    expect(floor.view("a")).not.toHaveProperty("queuedAt");
    expect(floor.events("arbitration").at(-1)).toMatchObject({ reason: "queue_timeout" });
  });

  test("a session stays created, and may be started by hand", () => {
    const floor = refused("news");
    expect(floor.events("arbitration").at(-1)).toMatchObject({ outcome: "rejected" });
    expect(floor.view("a")).toMatchObject({ state: "created" });
    expect(floor.view("a")).not.toHaveProperty("schedule");
    floor.on("call", "archive");
    expect(floor.on("a", "activate")).toMatchObject({ ok: true });
    expect(floor.state("a")).toBe("active.idle");
  });

  test("its message is kept, and its turn has failed", () => {
    const floor = refused("news", { inMs: MINUTE, content: "The news" });
    expect(floor.view("a")).toMatchObject({ messageCount: 1, failure: { errorCode: "rejected" } });
    const statuses = floor.facts.flatMap((fact) => (fact.type === "message.status" ? fact.status : []));
    expect(statuses).toEqual(["error"]);
    expect(floor.facts.some(({ type }) => type === "run_request.add")).toBe(false);
  });

  test("also because its agent has left the catalogue, or does not answer", () => {
    const floor = stage();
    schedule(floor, "a", { inMs: MINUTE });
    floor.catalog = makeCatalog(AGENTS.filter(({ name }) => name !== "alarm"));
    floor.pass(MINUTE);
    expect(floor.events("arbitration").at(-1)).toMatchObject({ outcome: "rejected" });
    expect(schedule(floor, "b", { inMs: MINUTE }, "off")).toMatchObject({ ok: false, code: "agent_not_found" });
  });
});

test("a session that waits for its time competes for nothing, and nothing but its time starts it", () => {
  const floor = stage();
  schedule(floor, "a", { inMs: HOUR });
  expect(floor.on("a", "activate")).toMatchObject({ ok: false, code: "illegal_command" });
  expect(floor.on("a", "resume")).toMatchObject({ ok: false, code: "illegal_command" });
  expect(floor.chat("a", "m1")).toMatchObject({ ok: false, code: "illegal_command" });
  floor.ask({ type: "session.heartbeat", sessionId: "a" });
  floor.create("news");
  floor.on("news", "archive");
  expect(floor.ask({ type: "floor.stop_all" })).toMatchObject({ archived: [] });
  expect(floor.view("a")).toMatchObject({ state: "created", schedule: {} });
  floor.pass(HOUR);
  expect(floor.state("a")).toBe("active.idle");
});

test.each(["archive", "stop", "delete"] as const)("%s cancels it", (verb) => {
  const floor = stage();
  schedule(floor, "a", { inMs: HOUR });
  floor.on("a", verb);
  expect(floor.actors.nextRing()).toBeUndefined();
  floor.pass(2 * HOUR);
  expect(firedOf(floor)).toEqual([]);
  expect(floor.actors.context.floor.holder).toBeUndefined();
});

test("its time can be changed, and its message stays unless another is given", () => {
  const floor = stage();
  schedule(floor, "a", { inMs: HOUR, content: "Up!" });
  const at = floor.now + 3 * HOUR;
  expect(floor.ask({ type: "session.schedule", sessionId: "a", schedule: { at } })).toMatchObject({ ok: true });
  expect(floor.view("a")?.schedule).toEqual({ at, content: "Up!" });
  expect(floor.events("session_updated")).toEqual([{ schedule: { at, content: "Up!" } }]);
  floor.ask({ type: "session.schedule", sessionId: "a", schedule: { at, content: "Down!" } });
  floor.pass(2 * HOUR);
  expect(floor.state("a")).toBe("created");
  floor.pass(HOUR);
  expect(floor.view("a")).toMatchObject({ state: "active", title: "Down!" });
  expect(floor.ask({ type: "session.schedule", sessionId: "a", schedule: { inMs: 1 } })).toMatchObject({
    code: "illegal_command",
  });
});

test("a session that was created without a time may get one, unless it waits for the floor", () => {
  const floor = stage();
  floor.create("alarm", { activate: false });
  const give = () => floor.ask({ type: "session.schedule", sessionId: "alarm", schedule: { inMs: MINUTE } });
  floor.create("call");
  floor.on("alarm", "activate");
  expect(give()).toMatchObject({ ok: false, code: "illegal_command" });
  floor.pass(30_000);
  expect(give()).toMatchObject({ ok: true });
  floor.on("call", "archive");
  floor.pass(MINUTE);
  expect(floor.state("alarm")).toBe("active.idle");
});

describe("bounds", () => {
  test("a time may have passed by a minute, and may be five years ahead", () => {
    const floor = stage();
    const refusal = (wanted: Schedule) => schedule(floor, "x", wanted);
    expect(refusal({ at: floor.now - MINUTE - 1 })).toMatchObject({
      code: "bad_request",
      facts: { issues: [{ path: "body.at", message: "has passed: it is 2026-01-01T12:00:00.000Z now" }] },
    });
    expect(refusal({ at: floor.now + 1_831 * DAY })).toMatchObject({ code: "bad_request" });
    expect(refusal({ every: "0 12 30 2 *", timezone: BERLIN })).toMatchObject({
      facts: { issues: [{ path: "body.every" }] },
    });
    expect(schedule(floor, "a", { at: floor.now - MINUTE })).toMatchObject({ ok: true });
    expect(floor.state("a")).toBe("active.idle");
    expect(firedOf(floor)).toEqual([{ at: floor.now - MINUTE, lateMs: MINUTE }]);
  });

  test("64 sessions of a floor wait for their time, and one that has asked makes room", () => {
    const floor = stage();
    for (let index = 0; index < 64; index++) schedule(floor, `a${index}`, { inMs: HOUR + index * MINUTE });
    expect(schedule(floor, "more", { inMs: HOUR })).toMatchObject({ ok: false, code: "too_many_schedules" });
    floor.create("news", { activate: false });
    const give = { type: "session.schedule" as const, sessionId: "news", schedule: { inMs: HOUR } };
    expect(floor.ask(give)).toMatchObject({ ok: false, code: "too_many_schedules" });
    expect(floor.ask({ ...give, sessionId: "a1" })).toMatchObject({ ok: true });
    floor.pass(HOUR);
    expect(schedule(floor, "more", { inMs: HOUR })).toMatchObject({ ok: true });
  });

  test("a session of its own floor has no series, and an external agent no message", () => {
    const floor = new FloorStage(makeCatalog(AGENTS), "s:a");
    const session = { sessionId: "a", agentId: "alarm" };
    const create = { type: "session.create" as const, sessionId: "a", session, activate: false };
    const every = { every: "0 7 * * *", timezone: BERLIN };
    expect(floor.ask({ ...create, schedule: every })).toMatchObject({ facts: { issues: [{ path: "body.userId" }] } });
    expect(floor.ask({ ...create, schedule: { inMs: HOUR } })).toMatchObject({ ok: true });
    expect(floor.ask({ type: "session.schedule", sessionId: "a", schedule: every })).toMatchObject({
      facts: { issues: [{ path: "body.userId" }] },
    });
    const other = stage();
    expect(schedule(other, "p", { inMs: HOUR, content: "hm" }, "player")).toMatchObject({ code: "illegal_command" });
    schedule(other, "q", { inMs: HOUR, content: "hm" });
    expect(other.ask({ type: "session.switch_agent", sessionId: "q", agentId: "player" })).toMatchObject({
      outcome: { errorCode: "agent_busy" },
    });
  });
});

describe("a series", () => {
  const daily = (floor: FloorStage, every = "0 7 * * *", content?: string) =>
    schedule(floor, "s", { every, timezone: BERLIN, ...(content && { content }) }, "alarm", "Wake up");
  const occurrences = (floor: FloorStage) =>
    floor.actors.sessionIds.flatMap((id) => {
      const view = floor.view(id)!;
      return view.series === "s" ? view : [];
    });

  test("makes a session for each of its times, and goes on waiting itself", () => {
    const floor = stage();
    daily(floor, "0 7 * * *", "Good morning!");
    floor.ask({ type: "session.update", sessionId: "s", settings: { mode: "soft" } });
    const first = Date.parse("2026-01-02T06:00Z");
    expect(floor.view("s")?.schedule).toMatchObject({ at: first, every: "0 7 * * *", timezone: BERLIN });
    floor.pass(DAY);
    expect(floor.view("s")).toMatchObject({ state: "created", messageCount: 0, schedule: { at: first + DAY } });
    const [one, ...others] = occurrences(floor);
    expect(others).toEqual([]);
    expect(one).toMatchObject({ state: "active", title: "Wake up", mode: "soft", agentId: "alarm", userId: "ann" });
    expect(one!.messageCount).toBe(1);
    expect(one).not.toHaveProperty("schedule");
    expect(floor.events("session_updated")[1]).toMatchObject({
      fired: { at: first, lateMs: 0, sessionId: one!.id },
      schedule: { at: first + DAY },
    });
    floor.pass(DAY);
    expect(occurrences(floor)).toHaveLength(2);
  });

  test("that was missed while everything was down fires once, late, and goes on from now", () => {
    const floor = stage();
    daily(floor);
    floor.pass(5 * DAY, 4 * DAY);
    const times = [2, 6].map((day) => Date.parse(`2026-01-0${day}T06:00Z`));
    const late = Date.parse("2026-01-05T12:00Z") - times[0]!;
    const series = firedOf(floor).filter((fired) => (fired as { sessionId?: string }).sessionId);
    expect(series).toMatchObject([
      { at: times[0], lateMs: late },
      { at: times[1], lateMs: 0 },
    ]);
    // It is heard when it fires: its limits count from then, and not from when it should have.
    expect(floor.events("session_transition")[0]).toMatchObject({ to: "active.idle" });
    const yields = floor.facts.findIndex((fact) => fact.type === "event" && "reason" in fact.event.data);
    expect(yields).toBeGreaterThan(0);
  });

  test("its rule can be changed, and ending it leaves the session that plays", () => {
    const floor = stage();
    daily(floor);
    floor.pass(18 * HOUR);
    const [one] = occurrences(floor);
    expect(one).toMatchObject({ state: "active" });
    floor.ask({ type: "session.schedule", sessionId: "s", schedule: { every: "30 9 * * *", timezone: BERLIN } });
    expect(floor.view("s")?.schedule?.at).toBe(Date.parse("2026-01-02T08:30Z"));
    floor.on("s", "archive");
    expect(floor.state(one!.id)).toBe("active.idle");
    floor.pass(3 * DAY);
    expect(occurrences(floor)).toHaveLength(1);
  });

  test.each([
    ["news", undefined, 0, "rejected"],
    ["news", "The news", 0, "rejected"],
    ["alarm", "Good morning!", 30_000, "queue_timeout"],
    ["alarm", undefined, 30_000, "queue_timeout"],
  ])("a session of it that %s does not get to speak ends, and says why", (agentId, content, waitMs, reason) => {
    const floor = stage();
    floor.create("call");
    schedule(floor, "s", { every: "0 7 * * *", timezone: BERLIN, ...(content && { content }) }, agentId);
    for (const day of [1, 2]) {
      floor.pass(DAY);
      floor.pass(waitMs);
      expect(floor.events("session_transition").filter(({ to }) => to === "archived")).toHaveLength(day);
    }
    expect(floor.events("session_transition").at(-1)).toMatchObject({ event: "archive", reason: "missed" });
    expect(floor.events("arbitration").at(-1)).toMatchObject(reason === "rejected" ? { outcome: reason } : { reason });
    for (const { state, failure, messageCount } of occurrences(floor)) {
      const told = content ? { failure: { errorCode: "rejected" }, messageCount: 1 } : { messageCount: 0 };
      expect({ state, failure, messageCount }).toMatchObject({ state: "archived", ...told });
    }
    expect(floor.view("s")).toMatchObject({ state: "created", schedule: {} });
  });

  test.each(["keep", "yield"])(
    "a session of it whose message is taken back while it waits ends with it (%s)",
    (after_turn) => {
      const floor = new FloorStage(makeCatalog(AGENTS.map((agent) => ({ ...agent, after_turn }))));
      floor.create("call");
      daily(floor, "0 7 * * *", "Good morning!");
      const waiting = (days: number) => {
        floor.pass(days * DAY - (floor.now - start));
        return occurrences(floor).find(({ state }) => state === "created")!;
      };
      const start = Date.parse("2026-01-01T06:00Z");
      const messageId = () =>
        floor.facts.flatMap((fact) => (fact.type === "message.add" ? fact.message.id : [])).at(-1)!;
      const one = waiting(1);
      expect(one).toMatchObject({ queuedAt: floor.now, messageCount: 1 });
      expect(floor.ask({ type: "session.withdraw", sessionId: one.id, messageId: messageId() })).toMatchObject({
        ok: true,
      });
      expect(floor.state(one.id)).toBe("archived");
      expect(floor.events("session_transition").at(-1)).toMatchObject({ event: "archive", reason: "after_turn" });
      // With another message it goes on.
      const two = waiting(2);
      const first = messageId();
      floor.chat(two.id, "more");
      floor.ask({ type: "session.withdraw", sessionId: two.id, messageId: first });
      expect(floor.view(two.id)).toMatchObject({ state: "created", queuedAt: floor.now, messageCount: 1 });
      expect(floor.view("s")).toMatchObject({ state: "created", schedule: {} });
    },
  );

  test("can become a single time", () => {
    const floor = stage();
    daily(floor);
    floor.ask({ type: "session.schedule", sessionId: "s", schedule: { inMs: MINUTE } });
    floor.pass(MINUTE);
    expect(floor.state("s")).toBe("active.idle");
    floor.pass(3 * DAY);
    expect(occurrences(floor)).toEqual([]);
  });
});

describe("when the wall clock is set", () => {
  test("forward over its time, a session asks at the next event, late by what was skipped", () => {
    const floor = stage();
    schedule(floor, "a", { inMs: 2 * HOUR });
    floor.wallAheadMs = 3 * HOUR;
    floor.ask({ type: "alarm" });
    expect(floor.state("a")).toBe("active.idle");
    expect(firedOf(floor)).toMatchObject([{ lateMs: HOUR }]);
  });

  test("back, a session waits for its time on the wall clock, and does not ask twice", () => {
    const floor = stage();
    schedule(floor, "s", { every: "0 13 * * *", timezone: "UTC" });
    floor.pass(30 * MINUTE);
    floor.wallAheadMs = -HOUR;
    floor.pass(30 * MINUTE);
    expect(firedOf(floor)).toEqual([]);
    floor.pass(HOUR);
    expect(floor.events("session_created")).toHaveLength(2);
    // It is 13:00 once more.
    floor.wallAheadMs = -2 * HOUR;
    floor.pass(HOUR);
    expect(floor.events("session_created")).toHaveLength(2);
    floor.pass(DAY);
    expect(floor.events("session_created")).toHaveLength(3);
  });
});

test("a restart keeps the times, and the sessions that wait are in the floor's snapshot", () => {
  const floor = stage();
  schedule(floor, "a", { inMs: HOUR, content: "Up!" });
  schedule(floor, "s", { every: "0 7 * * mon", timezone: BERLIN });
  const before = JSON.parse(persistWhole(floor.actors));
  floor.restart();
  expect(JSON.parse(persistWhole(floor.actors))).toEqual(before);
  expect([...floor.actors.neededIds()]).toEqual(["a", "s"]);
  floor.pass(HOUR);
  floor.restart();
  floor.pass(7 * DAY);
  expect(firedOf(floor)).toHaveLength(3);
});

test.each([1, 2, 3])("a year in two time zones loses and doubles no time (seed %d)", (seed) => {
  const chance = new Chance(seed);
  const random = (below: number) => chance.below(below);
  const rules = {
    nights: ["15,30 2 * * *", BERLIN],
    workdays: ["0 7 * * mon-fri", "America/New_York"],
    hours: ["5 1-2 * * sun", "America/New_York"],
  } as const;
  const floor = new FloorStage(makeCatalog(AGENTS));
  floor.create("call");
  const from = floor.now;
  const walked = Object.fromEntries(
    Object.entries(rules).map(([name, [every, timezone]]) => {
      schedule(floor, name, { every, timezone }, "news");
      return [name, minutesOf(every, timezone, from, from + 380 * DAY).map((at) => Date.parse(at))];
    }),
  );
  // The judge: a time comes when the wall clock first reads it. Those that it is set over come as one.
  const wanted: Record<string, number[]> = Object.fromEntries(Object.keys(rules).map((name) => [name, []]));
  const judge = (wall: number, isContinuous: boolean) => {
    for (const [name, times] of Object.entries(walked)) {
      const left = times.filter((at) => at <= wall);
      const come = isContinuous ? left : left.slice(0, 1);
      wanted[name]!.push(...come);
      walked[name] = times.slice(left.length);
    }
  };
  while (floor.now < from + 365 * DAY) {
    const kind = random(8);
    if (kind === 0) floor.restart();
    else if (kind === 1) {
      // Everything is down for a while.
      const awayMs = random(40) * HOUR;
      floor.pass(awayMs, awayMs);
      judge(floor.now + floor.wallAheadMs, false);
    } else if (kind === 2) {
      floor.wallAheadMs += random(2) === 0 ? random(30) * HOUR : -random(30) * HOUR;
      judge(floor.now + floor.wallAheadMs, false);
    } else {
      floor.pass(random(60 * 24 * 3) * MINUTE);
      judge(floor.now + floor.wallAheadMs, true);
    }
    floor.ask({ type: "alarm" });
    for (const id of floor.actors.sessionIds) if (floor.view(id)?.series !== undefined) floor.on(id, "delete");
    floor.actors.evict();
  }
  const fired: Record<string, number[]> = Object.fromEntries(Object.keys(rules).map((name) => [name, []]));
  for (const fact of floor.facts) {
    if (fact.type !== "event" || fact.event.type !== "session_updated" || !fact.event.data.fired?.sessionId) continue;
    fired[fact.event.sessionId!]!.push(fact.event.data.fired.at);
  }
  expect(fired).toEqual(wanted);
  expect(fired["nights"]!.length).toBeGreaterThan(400);
});
