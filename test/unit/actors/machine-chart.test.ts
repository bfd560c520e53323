import { expect, test } from "vitest";
import { createActor, setup } from "xstate";
import { arbiterMachine } from "../../../src/actors/floor/arbiter-machine.ts";
import { chartOf } from "../../../src/actors/machine/machine-chart.ts";
import { type SessionInput, sessionMachine } from "../../../src/actors/session/session-machine.ts";
import { mermaidOf } from "../../../src/cli/machines.ts";
import { COMMAND_TYPES } from "../../../src/protocol/internal/command.ts";
import { ACTIVITIES, STATES } from "../../../src/protocol/session.ts";

const charts = [arbiterMachine, sessionMachine].map(chartOf);
const [arbiter, session] = charts as [(typeof charts)[number], (typeof charts)[number]];

test("a chart distinguishes events that change the state from those that do not", () => {
  const [lifecycle] = session.regions;
  expect(lifecycle!.arrows).toContainEqual({ from: "active", to: "paused", event: "preempt" });
  const active = lifecycle!.states.find(({ name }) => name === "active");
  expect(active?.stays).toContain("session.update");
  expect(active?.stays).not.toContain("preempt");
  expect(arbiter.anywhere).toContain("session.*");
  expect(session.anywhere).toEqual(["leave"]);
});

test("a chart distinguishes events that a state refuses, with their codes, from those that it accepts", () => {
  const [created, archived] = ["created", "archived"].map((name) =>
    session.regions[0]!.states.find((state) => state.name === name),
  );
  expect(created!.refuses).toEqual([
    { event: "session.pause", code: "illegal_command" },
    { event: "session.resume", code: "illegal_command" },
  ]);
  expect(created!.stays).not.toContain("session.pause");
  expect(archived!.refuses).toContainEqual({ event: "session.chat", code: "session_archived" });
  expect(archived!.stays).toContain("session.stop");
});

test("XState's own actor of a session without a run begins in the states of its row, in which a node restores it", () => {
  for (const lifecycle of ["created", "paused", "archived"] as const) {
    for (const activity of ["idle", "failed"] as const) {
      const input = { lifecycle, activity, context: {} } as unknown as SessionInput;
      expect(createActor(sessionMachine, { input }).getSnapshot().value).toEqual({ lifecycle, activity });
    }
  }
});

test("every command to a session is handled in every state of a session, or refused with a code", () => {
  const [lifecycle, activity] = session.regions;
  const handles = ({ states, arrows }: (typeof session.regions)[number], name: string, event: string) => {
    const { stays, refuses } = states.find((state) => state.name === name)!;
    const isArrow = arrows.some((arrow) => arrow.from === name && arrow.event === event);
    return isArrow || stays.includes(event) || refuses.some((refused) => refused.event === event);
  };
  // The arbiter answers these itself.
  const ofArbiter = ["session.create", "session.copy", "session.move", "session.replace"];
  const toSessions = [...COMMAND_TYPES].filter((type) => /^(session|run)\./.test(type) && !ofArbiter.includes(type));
  const unanswered = toSessions.flatMap((type) =>
    STATES.filter(
      (name) => !handles(lifecycle!, name, type) && !ACTIVITIES.every((each) => handles(activity!, each, type)),
    ).map((name) => `${type} in ${name}`),
  );
  expect(unanswered, "add the command to src/actors/session/session-machine.ts").toEqual([]);
});

test("a chart is refused for a machine with a feature that a chart cannot show", () => {
  const nested = setup({}).createMachine({ initial: "a", states: { a: { initial: "b", states: { b: {} } } } });
  expect(() => chartOf(nested)).toThrow("has substates");
  const nameless = setup({}).createMachine({
    initial: "a",
    states: { a: { always: { guard: () => true, target: "b" } }, b: {} },
  });
  expect(() => chartOf(nameless)).toThrow("without a name");
});

test("a diagram has one arrow from state to state, labelled with all its transitions", () => {
  const text = mermaidOf({
    id: "lamp",
    anywhere: [],
    regions: [
      {
        name: "lamp",
        initial: "off",
        states: [
          { name: "off", stays: [], refuses: [] },
          { name: "on", stays: ["look"], refuses: [] },
        ],
        arrows: [
          { from: "off", to: "on", event: "press" },
          { from: "off", to: "on", event: "clap", guard: "isDark" },
          { from: "on", to: "off" },
          { from: "on", to: "off", event: "press", guard: "isDark" },
          { from: "on", to: "off", event: "press" },
        ],
      },
    ],
  });
  expect(text).toBe("stateDiagram-v2\n  [*] --> off\n  off --> on : press, clap [isDark]\n  on --> off : press\n");
});
