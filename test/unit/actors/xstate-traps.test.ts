/** Properties of XState 5 that the code must work around (docs/inside/architecture.md), each with its workaround. */

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createActor, type InspectionEvent } from "xstate";
import { arbiterMachine } from "../../../src/actors/floor/arbiter-machine.ts";
import { BrokenActors, FloorActors, type SavedFloor } from "../../../src/actors/host/floor-actors.ts";
import { memoryOf } from "../../../src/actors/session/session-context.ts";
import type { SessionInput } from "../../../src/actors/session/session-machine.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { EXAMPLE_AGENTS, makeCatalog } from "../../support/catalogs/catalog.ts";
import { play } from "../../support/floors/floor-script.ts";
import { FloorStage, type LooseCommand, withThrowing } from "../../support/floors/floor-stage.ts";
import { persistWhole, throughRows } from "../../support/floors/persisted-floor.ts";
import { author, sung } from "../../support/floors/playing-floor.ts";

const FLOOR = "u:ann" as FloorId;
const CATALOG = makeCatalog([
  ...EXAMPLE_AGENTS,
  { name: "patient", priority: 10, when_blocked: "queue", queue_timeout: "30s" },
  { name: "stacker", priority: 95, when_busy: "enqueue" },
  { name: "alarm", priority: 100 },
]);
const question = (requestId: string) => ({ kind: "question" as const, requestId, question: "Which?", options: ["a"] });

/**
 * Music is paused within a reply, another session waits for the floor, and the stacker waits for an answer with a turn
 * queued behind it.
 */
function busyFloor(): FloorStage {
  const floor = sung(new FloorStage(CATALOG));
  play(floor, "start stacker; start patient");
  floor.chat("stacker", "m2");
  floor.claim("stacker", "run-m2");
  floor.report("stacker", "run-m2", 1, { parts: [{ kind: "ask", interaction: question("q1") }] });
  floor.chat("stacker", "m3");
  return floor;
}

/** `machine-player.test.ts` refuses machines with delays or invoked work. */
describe("XState does not restore a machine's delays or invoked work", () => {
  test("the machines' actions schedule nothing and start only sessions", () => {
    const folder = new URL("../../../src/actors/", import.meta.url);
    const sins = /\b(?:fromPromise|fromCallback|fromObservable|fromTransition|waitFor|setTimeout)\b|\bdelay:/;
    expect(sins.test('raise({ type: "later" }, { delay: 10 })')).toBe(true);
    const files = ["floor/", "session/"].flatMap((room) =>
      readdirSync(new URL(room, folder)).map((file) => room + file),
    );
    expect(files.length).toBeGreaterThan(8);
    expect(files.filter((file) => sins.test(readFileSync(new URL(file, folder), "utf8")))).toEqual([]);
  });

  test("restoring the machines has no effect and emits nothing", () => {
    const floor = busyFloor();
    const persisted = persistWhole(floor.actors);
    const done: string[] = [];
    const inspect = (event: InspectionEvent) => {
      if (event.type === "@xstate.action") done.push(event.action.type);
      if (event.type === "@xstate.event" && event.event.type !== "xstate.init") done.push(event.event.type);
    };
    const actor = createActor(arbiterMachine, { input: { floorId: FLOOR }, inspect, snapshot: JSON.parse(persisted) });
    actor.start();
    expect(done).toEqual([]);
    const restored = new FloorActors(FLOOR, throughRows(floor.actors));
    expect([restored.drainTouched(), JSON.parse(persistWhole(restored))]).toEqual([[], JSON.parse(persisted)]);
    expect(restored.sessionIds.sort()).toEqual(["music", "patient", "stacker"]);
  });
});

describe("XState accepts any snapshot silently", () => {
  type Change = (arbiter: SavedFloor["arbiter"], sessions: Map<string, SessionInput>) => void;

  /** The saved state of the machines, with a change. */
  function changed(change: Change): SavedFloor {
    const { arbiter, sessions } = throughRows(busyFloor().actors);
    const byId = new Map<string, SessionInput>(sessions.map((session) => [session.context.id, session]));
    change(arbiter, byId);
    return { arbiter, sessions: [...byId.values()] };
  }

  test.each<[string, RegExp, Change]>([
    [
      "a session in an unknown state",
      /^machine session has no state /,
      (_, sessions) => Object.assign(sessions.get("music")!, { lifecycle: "levitating" }),
    ],
    ["no session where the floor names one", /broke$/, (_, sessions) => sessions.delete("stacker")],
    ["no session where the queue names one", /broke$/, (_, sessions) => sessions.delete("patient")],
    ["an arbiter in an unknown state", /broke$/, (arbiter) => Object.assign(arbiter, { value: "levitating" })],
    ["an arbiter that is over", /broke$/, (arbiter) => Object.assign(arbiter, { status: "done" })],
    ["a floor that remembers nothing", /undefined/, (arbiter) => Object.assign(arbiter, { context: {} })],
  ])("a snapshot with %s is refused", (_, refusal, change) => {
    expect(() => new FloorActors(FLOOR, changed(change))).toThrow(refusal);
  });
});

describe("XState silently ignores an event that a state does not handle", () => {
  const about = { sessionId: "s" };
  const attempt = { ...about, runId: "run-m1", attempt: 1 };
  const COMMANDS: LooseCommand[] = [
    { type: "session.create", ...about, session: { ...about, agentId: "music", userId: "ann" }, activate: true },
    { type: "session.chat", ...about, turn: { messageId: "m9", runId: "r9", content: "hello" } },
    ...(["activate", "resume", "pause", "archive", "stop", "abort", "delete"] as const).map(
      (verb): LooseCommand => ({ type: `session.${verb}`, ...about }),
    ),
    { type: "session.update", ...about, settings: { title: "t" } },
    { type: "session.switch_agent", ...about, agentId: "weather" },
    { type: "session.withdraw", ...about, messageId: "m9" },
    { type: "session.schedule", ...about, schedule: { inMs: 60_000 } },
    {
      type: "session.answer",
      ...about,
      requestId: "q9",
      answer: { kind: "question", requestId: "q9", selected: ["a"] },
    },
    { type: "floor.stop" },
    { type: "floor.stop_all" },
    { type: "floor.flags", flags: { emergency: true } },
    { type: "floor.what_if", agentId: "phone" },
    { type: "run.claim", ...about, runId: "run-m1", claimId: "other", hasNoDriver: true },
    { type: "run.report", ...attempt, n: 9, parts: [] },
    { type: "run.report", ...attempt, n: 1, parts: [], outcome: { kind: "done" } },
    { type: "run.still", ...attempt },
    { type: "alarm" },
  ];
  const through =
    (script: string, further: (floor: FloorStage) => unknown = () => {}) =>
    () => {
      const floor = new FloorStage(CATALOG);
      if (script !== "") play(floor, script);
      further(floor);
      return floor;
    };
  const CLAIMED = "start s:music; say s; claim s";
  const STATES: Record<string, () => FloorStage> = {
    nowhere: through(""),
    created: through("", (floor) => floor.create("music", { id: "s", activate: false })),
    queued: through("start phone; start s:patient"),
    "active.idle": through("start s:music"),
    "active.running": through("start s:music; say s"),
    "active.running, claimed": through(CLAIMED),
    "active.waiting": through(CLAIMED, (floor) =>
      floor.report("s", "run-m1", 1, { parts: [{ kind: "ask", interaction: question("q1") }] }),
    ),
    "active.failed": through(`${CLAIMED}; fail s`),
    "paused by the user": through("start s:music; say s; pause s"),
    "paused by another": through("start s:music; say s; start phone"),
    "paused, its run held": through(`${CLAIMED}; start phone`),
    archived: through("start s:music; say s; end s"),
    deleted: through("start s:music; say s; delete s"),
  };

  test.each(Object.entries(STATES))("every command gets exactly one answer if the session is %s", (_, make) => {
    for (const command of COMMANDS) {
      const floor = make();
      // Throws if the command is not answered, or answered twice.
      const { reply } = floor.deliver(command);
      expect(reply, command.type).toHaveProperty("ok");
      // The actors still work: the next command is answered.
      expect(floor.ask({ type: "floor.what_if", agentId: "phone" })).toMatchObject({ ok: true });
    }
  });

  test("a command that a state does not allow is refused with the list of allowed commands", () => {
    const commandOf = new Map(COMMANDS.map((command) => [command.type.replace("session.", ""), command]));
    for (const make of [STATES["created"]!, STATES["queued"]!]) {
      for (const verb of ["pause", "resume"] as const) {
        const refusal = make().on("s", verb);
        expect(refusal).toMatchObject({ ok: false, code: "illegal_command" });
        const allowed = (refusal.ok ? undefined : refusal.facts?.["allowed"]) as string[];
        expect(allowed.length).toBeGreaterThan(5);
        expect(allowed).not.toContain(verb);
        for (const each of allowed) {
          expect(make().ask(commandOf.get(each)!), each).toMatchObject({ ok: true });
        }
      }
    }
  });

  test.each(["xstate.stop", "xstate.done.actor.s", "xstate.error.actor.s", "xstate.init", "leave", "left", "nonsense"])(
    "a malformed command, %s, breaks the actors that get it instead of being obeyed",
    (type) => {
      const floor = STATES["active.idle"]!();
      const [before, saved] = [JSON.parse(persistWhole(floor.actors)), throughRows(floor.actors)];
      expect(() => floor.ask({ type } as never)).toThrow(BrokenActors);
      expect(() => STATES["active.idle"]!().ask({ type, sessionId: "s" } as never)).toThrow(BrokenActors);
      // Another host that loads the floor finds it unchanged.
      expect(JSON.parse(persistWhole(new FloorActors(FLOOR, saved)))).toEqual(before);
    },
  );
});

describe("an exception within a machine stops the XState actor for good, and perhaps the process", () => {
  const ring = (floor: FloorStage) => floor.create("alarm");
  test.each([
    ["the arbiter", "alarm", ring],
    ["a session that the arbiter tells", "stacker", ring],
    ["a session that is asked directly", "stacker", (floor: FloorStage) => floor.on("stacker", "pause")],
  ])("an exception ends the actors of its floor and nothing else: thrown by %s", (_, throwing, ask) => {
    const floor = busyFloor();
    const saved = throughRows(floor.actors);
    floor.catalog = withThrowing(CATALOG, (agentId) => agentId === throwing);
    expect(() => ask(floor)).toThrow(BrokenActors);
    // The actors are unusable afterwards and report it; the command is not written.
    const warn = vi.spyOn(console, "warn");
    onTestFinished(() => warn.mockRestore());
    floor.catalog = CATALOG;
    expect(() => floor.ask({ type: "floor.what_if", agentId: "phone" })).toThrow(BrokenActors);
    expect(warn).not.toHaveBeenCalled();
    floor.actors = new FloorActors(FLOOR, saved);
    expect(ask(floor).ok).toBe(true);
    expect(floor.state("stacker")).toBe("paused");
  });
});

describe("an XState snapshot grows with the machine's context", () => {
  test("a session's snapshot is no larger after six hundred turns than after three hundred", () => {
    const floor = new FloorStage(makeCatalog([{ name: "music", when_busy: "enqueue" }]));
    floor.create("music");
    const sizes: number[] = [];
    for (let turn = 1000; turn < 1600; turn++) {
      playTurn(floor, `${turn}`);
      floor.actors.evict();
      const { context } = floor.actors.machineState("music" as SessionId)!;
      sizes.push(persistWhole(floor.actors).length + memoryOf(context).length);
    }
    // Numbers can grow by a few digits.
    expect(Math.abs(sizes[599]! - sizes[299]!)).toBeLessThan(64);
    expect(sizes[299]).toBeLessThan(16_384);
  });

  /**
   * A turn with all features: a tool that is approved for good, an answer, text, usage, a queued turn, a question that
   * expires.
   */
  function playTurn(floor: FloorStage, turn: string): void {
    const runId = `run-a${turn}`;
    const toolCall = { toolCallId: `t${turn}`, function: { name: `tool_${turn}`, arguments: "{}" } };
    const confirmation = { kind: "confirmation" as const, requestId: `c${turn}`, toolCall, isSensitive: true };
    floor.chat("music", `a${turn}`);
    floor.claim("music", runId, turn);
    floor.report("music", runId, 1, {
      parts: [
        { kind: "open", messageId: `w${turn}`, agent: author },
        { kind: "append", messageId: `w${turn}`, offset: 0, text: "la ".repeat(100) },
        { kind: "provider_session", id: `p${turn}` },
        { kind: "usage", usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } },
      ],
    });
    floor.report("music", runId, 2, { parts: [{ kind: "ask", interaction: confirmation }] });
    const answer = { kind: "confirmation" as const, requestId: `c${turn}`, verdict: "approve_always" as const };
    floor.ask({ type: "session.answer", sessionId: "music", requestId: answer.requestId, answer });
    floor.chat("music", `b${turn}`);
    floor.report("music", runId, 3, { outcome: { kind: "done", summary: `turn ${turn}` } });
    floor.claim("music", `run-b${turn}`, turn);
    floor.report("music", `run-b${turn}`, 1, { parts: [{ kind: "ask", interaction: question(`q${turn}`) }] });
    floor.pass(floor.due! - floor.now);
    floor.report("music", `run-b${turn}`, 2, { outcome: { kind: "stopped" } });
    expect(floor.state("music")).toBe("active.failed");
  }
});
