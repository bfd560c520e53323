import { expect, test } from "vitest";
import { EXAMPLE_AGENTS, makeCatalog } from "../../support/catalogs/catalog.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";
import {
  author,
  closed,
  DONE,
  LOST,
  playing,
  requestedRuns,
  say,
  scripted,
  sung,
  withdrawn,
  withMusic,
  YIELDED,
} from "../../support/floors/playing-floor.ts";

test("a turn keeps the user's message, requests a worker and runs", () => {
  const floor = new FloorStage(withMusic({}));
  floor.create("music");
  const facts = floor.factsOf(() => {
    expect(floor.chat("music", "m1")).toMatchObject({ ok: true, messageId: "m1", runId: "run-m1" });
  });
  // The events: the session gets its title from its first message, and runs.
  expect(facts.map((fact) => fact.type)).toEqual(["message.add", "event", "turn.begun", "run_request.add", "event"]);
  expect(floor.state("music")).toBe("active.running");
});

test("a turn of a session that is not active requests the floor first, and leaves nothing if it is rejected", () => {
  const floor = new FloorStage(withMusic({}));
  floor.create("music", { activate: false });
  floor.create("phone");
  const facts = floor.factsOf(() => {
    expect(floor.chat("music", "m1")).toMatchObject({ ok: false, code: "rejected" });
  });
  expect(facts.map((fact) => fact.type)).toEqual(["event"]);
  floor.on("phone", "archive");
  expect(floor.chat("music", "m1").ok).toBe(true);
  expect(floor.state("music")).toBe("active.running");
});

test("a rejected turn that would create a session leaves no session behind", () => {
  const floor = new FloorStage(withMusic({}));
  floor.create("phone");
  const session = { sessionId: "new", agentId: "music", userId: "ann" };
  const turn = { messageId: "m1", runId: "r1", content: "play" };
  const reply = floor.ask({ type: "session.chat", sessionId: "new", session, turn });
  expect(reply).toMatchObject({ ok: false, code: "rejected" });
  expect(floor.state("new")).toBeUndefined();
});

test("a turn while another runs is refused, queued or takes over, as its agent is configured", () => {
  expect(playing().chat("music", "m2")).toMatchObject({ ok: false, code: "agent_busy" });

  const queueing = playing({ when_busy: "enqueue" });
  for (const messageId of ["m2", "m3"]) {
    expect(queueing.chat("music", messageId)).toMatchObject({ ok: true, runId: `run-${messageId}` });
    expect(queueing.facts).toContainEqual({
      type: "message.add",
      message: expect.objectContaining({ id: messageId, status: "queued" }),
    });
  }
  queueing.report("music", "run-m1", 2, DONE);
  const moves = ["music active.running→active.idle", "music active.idle→active.running"];
  expect(queueing.transitions().slice(-2)).toEqual(moves);
  expect(queueing.contextOf("music").run?.id).toBe("run-m2");

  const interrupting = playing({ when_busy: "interrupt" });
  const interrupted = { runId: "run-m1", messageId: "a1" };
  expect(interrupting.chat("music", "m2")).toMatchObject({ ok: true, interrupted });
  expect(closed(interrupting.facts)).toEqual(["a1 interrupted"]);
  expect(interrupting.events("complete")).toMatchObject([{ runId: "run-m1", cancelled: true }]);
  expect(interrupting.state("music")).toBe("active.running");
});

const INTERRUPTING = { when_busy: "interrupt", when_blocked: "queue" };
const confirmation = {
  kind: "confirmation",
  requestId: "q1",
  toolCall: { toolCallId: "c1", function: { name: "rm", arguments: "{}" } },
  isSensitive: true,
} as const;
const asking = (floor: FloorStage) =>
  floor.report("music", "run-m1", 2, { parts: [{ kind: "ask", interaction: confirmation }] });

test.each<[state: string, keys: object, (floor: FloorStage) => void]>([
  ["is held during a call", {}, (floor) => floor.create("phone")],
  ["begins again after a call", { adapter: scripted({ yields: "abort" }) }, (floor) => floor.create("phone")],
  [
    "was paused by the user, and is blocked by a call",
    {},
    (floor) => {
      floor.on("music", "pause");
      floor.create("phone");
    },
  ],
  ["was paused by the user", {}, (floor) => floor.on("music", "pause")],
  ["was preempted, and has the floor back", {}, (floor) => [floor.create("phone"), floor.on("phone", "archive")]],
  ["waits for a confirmation", {}, asking],
  ["waits for a confirmation, paused by the user", {}, (floor) => [asking(floor), floor.on("music", "pause")]],
  [
    "waits for a confirmation during a call",
    {},
    (floor) => {
      asking(floor);
      floor.create("phone");
    },
  ],
])("a turn that interrupts ends the old one at once if that %s", (_, keys, play) => {
  const floor = playing({ ...INTERRUPTING, ...keys });
  play(floor);
  expect(floor.chat("music", "m2")).toMatchObject({ ok: true, runId: "run-m2", interrupted: { runId: "run-m1" } });
  expect(floor.events("complete")).toMatchObject([{ runId: "run-m1", cancelled: true }]);
  if (floor.state("phone")) floor.on("phone", "archive");
  expect(floor.contextOf("music")).toMatchObject({ run: { id: "run-m2" }, turns: [] });
});

test("a confirmation with the agent's own options takes these, and no other choice", () => {
  const floor = playing();
  const options = [
    { value: "approve:auto", label: "Yes, and accept edits" },
    { value: "reject", label: "No, keep planning" },
  ] as const;
  const interaction = { ...confirmation, options: [...options] };
  floor.report("music", "run-m1", 2, { parts: [{ kind: "ask", interaction }] });
  expect(floor.events("tool_confirmation_request")).toMatchObject([{ availableOptions: options }]);
  const choose = (choice: `approve:${string}`) => {
    const answer = { kind: "confirmation" as const, requestId: "q1" as never, verdict: "approve" as const, choice };
    return floor.ask({ type: "session.answer", sessionId: "music", requestId: "q1", answer });
  };
  expect(choose("approve:other")).toMatchObject({ ok: false, code: "interaction_not_found" });
  expect(choose("approve:auto").ok).toBe(true);
});

test("a turn that interrupts also takes the place of one that waits for the floor", () => {
  const floor = playing(INTERRUPTING);
  floor.create("phone");
  for (const wish of ["m2", "m3"]) expect(floor.chat("music", wish).ok).toBe(true);
  expect(floor.events("complete").map(({ runId }) => runId)).toEqual(["run-m1", "run-m2"]);
  floor.on("phone", "archive");
  expect(floor.contextOf("music")).toMatchObject({ run: { id: "run-m3" }, turns: [] });
  expect(floor.state("music")).toBe("active.running");
});

test("a turn that interrupts ends nothing if it is refused", () => {
  const floor = playing({ ...INTERRUPTING, when_blocked: "reject" });
  floor.create("phone");
  expect(floor.chat("music", "m2")).toMatchObject({ ok: false, code: "rejected" });
  floor.on("phone", "archive");
  expect(floor.contextOf("music").run?.id).toBe("run-m1");
});

test("a turn that waits can be withdrawn; a running turn cannot", () => {
  const floor = playing({ when_busy: "enqueue" });
  floor.chat("music", "m2");
  const withdraw = (messageId: string) => floor.ask({ type: "session.withdraw", sessionId: "music", messageId });
  expect(withdraw("m2")).toMatchObject({ deleted: true });
  expect(floor.events("complete")).toMatchObject([{ runId: "run-m2", cancelled: true }]);
  expect(withdraw("m1")).toMatchObject({ ok: false, code: "illegal_command" });
});

test("an attempt is numbered by the floor; the same claim gets the same number", () => {
  const floor = playing();
  expect(floor.claim("music", "run-m1")).toMatchObject({ task: { attempt: 1 } });
  expect(floor.claim("music", "run-m1", "other")).toMatchObject({ task: { attempt: 2 } });
});

test.each<[of: string, state: string, verdict: string, hold: (floor: FloorStage) => unknown]>([
  ["an active", "active.running", "go", () => {}],
  ["a paused", "paused", "hold", (floor) => floor.on("music", "pause")],
  ["a preempted", "paused", "hold", (floor) => floor.create("phone")],
])(
  "the attempt of %s session is not replaced before its driver was asked for on the run's topic, and its reports wake nothing",
  (_, state, verdict, hold) => {
    const floor = playing();
    hold(floor);
    expect(floor.claim("music", "run-m1", "other", false)).toMatchObject({ isClaimed: true });
    expect(appending(floor, 2, 5, " la")).toMatchObject([{ type: "draft.append" }]);
    expect(floor.report("music", "run-m1", 3)).toMatchObject({ directive: { verdict } });
    expect(floor.state("music")).toBe(state);
  },
);

/** How an attempt ends without its run. @returns what readers learn if the run cannot go on */
const ENDS: Record<string, { yields?: "abort"; play: (floor: FloorStage) => void; why: RegExp }> = {
  "is given back during a pause": { play: (floor) => giveBack(floor, "pause"), why: /longer than its worker holds it/ },
  "is given back when the pause is over": {
    play: (floor) => giveBack(floor, "pause", "resume"),
    why: /longer than its worker holds it/,
  },
  "is preempted, and lost with its worker": {
    play: (floor) => {
      floor.create("phone");
      floor.claim("music", "run-m1", "other");
      floor.on("phone", "archive");
    },
    why: /worker that drove this run is gone/,
  },
  "is lost with its worker before a pause": {
    play: (floor) => {
      floor.on("music", "pause");
      floor.on("music", "resume");
      floor.claim("music", "run-m1", "other");
    },
    why: /worker that drove this run is gone/,
  },
  "is ended by a pause": {
    yields: "abort",
    play: (floor) => {
      floor.on("music", "pause");
      floor.report("music", "run-m1", 3, { outcome: { kind: "stopped" } });
    },
    why: /ended with a pause/,
  },
};
const giveBack = (floor: FloorStage, ...verbs: ("pause" | "resume")[]) => {
  for (const verb of verbs) floor.on("music", verb);
  floor.report("music", "run-m1", 3, YIELDED);
};
const call = { toolCallId: "c1", function: { name: "pay", arguments: "{}" } };
const helper = { kind: "sub" as const, name: "chat", depth: 1, path: ["music", "chat"], calls: ["c0"] };
const program = { kind: "command", command: "true" };

test.each(
  Object.entries(ENDS).flatMap(([end, { yields, ...rest }]) => [
    { end, ...rest, did: "called a tool", adapter: scripted({ restartable: false, yields }), by: author },
    { end, ...rest, did: "ran a program", adapter: { ...program, ...(yields && { yields }) }, by: author },
    { end, ...rest, did: "had a sub-agent that called a tool", adapter: scripted({ yields }), by: helper },
  ]),
)("an attempt that $did and $end is not repeated: its run is lost", ({ play, why, did, adapter, by }) => {
  const adapters: Record<string, object> = { music: adapter, chat: scripted({ restartable: false }) };
  const agents = EXAMPLE_AGENTS.map((agent) => {
    const own = adapters[agent["name"] as string];
    return own ? { ...agent, adapter: own } : agent;
  });
  const floor = sung(new FloorStage(makeCatalog(agents)));
  const parts = did === "ran a program" ? [] : [{ kind: "tool_call" as const, call, agent: by }];
  floor.report("music", "run-m1", 2, { parts });
  play(floor);
  if (floor.state("music") === "paused") floor.on("music", "resume");
  expect(floor.state("music")).toBe("active.failed");
  expect(floor.events("error")).toMatchObject([{ errorCode: "run_lost", runId: "run-m1", message: why }]);
  expect(floor.events("complete")).toHaveLength(1);
  expect(floor.claim("music", "run-m1", "late")).not.toHaveProperty("task");
});

test.each([
  ["only wrote text, by an agent that is not restartable", scripted({ restartable: false }), []],
  ["called a tool, by an agent that is restartable", scripted(), [{ kind: "tool_call" as const, call, agent: author }]],
])("an attempt that %s is given back, and its run goes on with another attempt", (_, adapter, parts) => {
  const floor = playing({ adapter });
  floor.report("music", "run-m1", 2, { parts });
  giveBack(floor, "pause");
  expect(closed(floor.facts)).toEqual(["a1 interrupted"]);
  floor.on("music", "resume");
  expect(floor.state("music")).toBe("active.running");
  expect(floor.claim("music", "run-m1", "other", false)).toMatchObject({ task: { attempt: 2 } });
});

/** What the floor does with a report of more text of the first attempt. */
const appending = (floor: FloorStage, n: number, offset: number, text: string, rest: object = {}) =>
  floor.factsOf(() =>
    floor.report("music", "run-m1", n, { parts: [{ kind: "append", messageId: "a1", offset, text }], ...rest }),
  );
const STOPPED = { outcome: { kind: "stopped" } };

test("a report of a replaced attempt changes nothing, and its answer stops the attempt", () => {
  const floor = playing();
  floor.claim("music", "run-m1", "other");
  expect(appending(floor, 2, 5, "late", DONE)).toEqual([]);
  expect(floor.report("music", "run-m1", 2, DONE)).toMatchObject({ directive: { verdict: "stop" } });
  expect(floor.state("music")).toBe("active.running");
});

test("the last report of an attempt that is being stopped is kept: once, in order, and until it has stopped", () => {
  const floor = playing();
  floor.on("music", "abort");
  const extension = (text: string, offset: number) =>
    expect.objectContaining({ type: "message.extend", messageId: "a1", text, offset });
  expect(appending(floor, 3, 10, "too early")).toEqual([]);
  expect(appending(floor, 2, 5, " lu")).toEqual([extension(" lu", 5)]);
  expect(appending(floor, 2, 5, " lu")).toEqual([]);
  expect(appending(floor, 3, 8, " lo", STOPPED)).toContainEqual(extension(" lo", 8));
  expect(appending(floor, 4, 11, " li")).toEqual([]);
});

test("the last report of an attempt that is being stopped may only begin messages, and counts its tokens", () => {
  const floor = playing();
  floor.on("music", "abort");
  const facts = floor.factsOf(() =>
    floor.report("music", "run-m1", 2, {
      parts: [
        { kind: "close", messageId: "a1", status: "success" },
        { kind: "usage", usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } },
        { kind: "open", messageId: "b1", agent: author },
        { kind: "append", messageId: "b1", offset: 0, text: "oh" },
        { kind: "append", messageId: "elsewhere", offset: 0, text: "not mine" },
        { kind: "open", messageId: "empty", agent: author },
      ],
    }),
  );
  const message = { id: "b1", content: "oh", status: "interrupted", agent: author };
  const used = { usage: { total_tokens: 2 } };
  expect(facts).toMatchObject([
    { type: "message.add", message },
    { type: "tokens.used", used },
  ]);
});

test.each(["archive", "stop"] as const)(
  "the last report of an attempt is kept until %s, after which nothing is logged",
  (verb) => {
    const floor = playing();
    floor.on("music", verb);
    expect(appending(floor, 2, 5, " lu")).toEqual([
      { type: "message.extend", sessionId: "music", messageId: "a1", offset: 5, text: " lu", isLogOver: true },
    ]);
    const last = appending(floor, 3, 8, " lo", STOPPED);
    expect(last).toContainEqual(expect.objectContaining({ type: "message.extend", text: " lo", isLogOver: true }));
    expect(floor.due).toBeUndefined();
    expect(appending(floor, 4, 11, " li")).toEqual([]);
  },
);

test("an attempt whose session was deleted has no last report, and leaves nothing due", () => {
  const floor = playing();
  floor.on("music", "abort");
  expect(floor.due).toBe(floor.now + 10_000);
  floor.on("music", "delete");
  expect(floor.due).toBeUndefined();
});

test("an attempt without output is replaced silently, but only a limited number of times", () => {
  const floor = new FloorStage(withMusic({ adapter: scripted({ restartable: false }) }));
  floor.create("music");
  floor.chat("music", "m1");
  for (const attempt of [1, 2, 3]) {
    expect(floor.claim("music", "run-m1", `worker-${attempt}`)).toMatchObject({ task: { attempt } });
  }
  expect(floor.claim("music", "run-m1", "worker-4")).not.toHaveProperty("task");
  expect(floor.events("error")).toMatchObject([{ errorCode: "run_lost" }]);
});

test("an attempt that its worker gives back is requested again, under a new id", () => {
  const floor = playing();
  const [first] = requestedRuns(floor.facts);
  const facts = floor.factsOf(() => floor.report("music", "run-m1", 2, LOST));
  expect(requestedRuns(facts)).toHaveLength(1);
  expect(requestedRuns(facts)[0]!.id).not.toBe(first!.id);
  expect(withdrawn(facts)).toContain(first!.id);
});

test("reports count once and in order: an old one is ignored, and a gap is requested", () => {
  const floor = playing();
  expect(say(floor, 1, "again")).toMatchObject({ directive: { verdict: "go" } });
  expect(floor.facts.filter((fact) => fact.type === "draft.append")).toHaveLength(1);
  expect(floor.report("music", "run-m1", 5)).toMatchObject({ directive: { expected: 2 } });
});

test("reports add up usage and keep the provider's own session id", () => {
  const floor = playing();
  const usage = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 };
  floor.report("music", "run-m1", 2, {
    parts: [
      { kind: "usage", usage },
      { kind: "provider_session", id: "p-1" },
    ],
    outcome: { kind: "done", summary: "sang" },
  });
  expect(floor.events("complete")).toMatchObject([{ runId: "run-m1", usage, tokenCount: 19 }]);
  const kept = { summary: "sang", tokenUsage: { used: 19 }, agentSessions: { music: "p-1" } };
  expect(floor.contextOf("music")).toMatchObject(kept);
  floor.chat("music", "m2");
  expect(floor.claim("music", "run-m2")).toMatchObject({ task: { providerSessionId: "p-1" } });
});

test("reports keep the provider sessions of the sixteen agents that ran last", () => {
  const names = Array.from({ length: 18 }, (_, index) => `agent${index}`);
  const floor = new FloorStage(makeCatalog(names.map((name) => ({ name, priority: 20 }))));
  floor.create(names[0]!, { id: "s" });
  for (const [index, name] of names.entries()) {
    if (index > 0) floor.ask({ type: "session.switch_agent", sessionId: "s", agentId: name });
    floor.chat("s", `m${index}`);
    floor.claim("s", `run-m${index}`);
    const parts = [{ kind: "provider_session" as const, id: `p${index}`, home: "here" }];
    floor.report("s", `run-m${index}`, 1, { parts, ...DONE });
  }
  const { agentSessions, agentHomes, agentHeard } = floor.contextOf("s");
  for (const record of [agentSessions, agentHomes!, agentHeard!]) {
    expect(Object.keys(record)).toEqual(names.slice(2));
  }
});

test("a run goes to the worker that has the provider's session, until that session is lost", () => {
  const floor = playing();
  floor.report("music", "run-m1", 2, { parts: [{ kind: "provider_session", id: "p-1", home: "here" }], ...DONE });
  floor.chat("music", "m2");
  expect(requestedRuns(floor.facts).at(-1)).toMatchObject({ runId: "run-m2", home: "here" });
  const task = { providerSessionId: "p-1", providerHome: "here", heardUpTo: "m1" };
  expect(floor.claim("music", "run-m2")).toMatchObject({ task });
  floor.report("music", "run-m2", 1, { parts: [{ kind: "provider_session" }], ...DONE });
  const { agentSessions, agentHomes } = floor.contextOf("music");
  expect([agentSessions, agentHomes]).toEqual([{}, undefined]);
  expect(floor.events("session_updated")).toContainEqual({ agentSessions: {} });
  floor.chat("music", "m3");
  expect(requestedRuns(floor.facts).at(-1)).toMatchObject({ runId: "run-m3" });
  expect(requestedRuns(floor.facts).at(-1)).not.toHaveProperty("home");
});

test("a report of a failure keeps the text and lets the user try again", () => {
  const floor = playing();
  const failure = { message: "slow down", retryAfterMs: 900 };
  floor.report("music", "run-m1", 2, { outcome: { kind: "failed", code: "provider_rate_limited", ...failure } });
  expect(floor.state("music")).toBe("active.failed");
  expect(closed(floor.facts)).toEqual(["a1 error"]);
  expect(floor.events("error")).toEqual([{ errorCode: "provider_rate_limited", ...failure, runId: "run-m1" }]);
  expect(floor.events("complete")).toHaveLength(1);
  expect(floor.chat("music", "m2").ok).toBe(true);
  expect(floor.state("music")).toBe("active.running");
});
