import { describe, expect, onTestFinished, test } from "vitest";
import type { Agent, Part } from "../../../src/agents/agent.ts";
import { createDelegate, Delegation, type DelegationResult, treeOf } from "../../../src/agents/sub-agent.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, RunId } from "../../../src/protocol/ids.ts";
import type { AgentRef } from "../../../src/protocol/message.ts";
import { isAlive } from "../../support/agents/processes.ts";
import { createRunStage, turnOf } from "../../support/agents/run-stage.ts";
import { testRegistry } from "../../support/agents/test-registry.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

type Run = Agent["run"];

/** Several agents: some of the catalogue's own kinds, some controlled by the test. */
function makeAgents(agents: object[], runs: Record<string, Run> = {}) {
  const catalog = makeCatalog(agents.map((agent) => ({ ...agent })));
  const registry = testRegistry({ catalog: () => catalog, env: {} });
  const faults: unknown[] = [];
  const find = (id: AgentId): Agent | undefined =>
    runs[id] ? { id, yields: "hold", restartable: true, run: runs[id] } : registry.find(id);
  const delegateOf = (name: string) =>
    createDelegate(catalog.agents.get(name as AgentId)!, {
      catalog: () => catalog,
      find,
      onFault: (fault) => faults.push(fault),
    });
  return { catalog, registry, faults, delegateOf };
}

type Setup = ReturnType<typeof makeAgents>;
const orderOf = (name: string, toolCallId = "call_1") => ({ name, task: "t", toolCallId });

/** Let `caller` ask `name`; `caller` is the session's agent. */
async function ask(
  setup: Setup,
  caller: string,
  name: string,
  stage = createRunStage(),
  turn = turnOf("hi"),
): Promise<{ parts: Part[]; result: DelegationResult }> {
  const delegation = setup.delegateOf(caller)(orderOf(name), turn, stage.control);
  const parts: Part[] = [];
  for (;;) {
    const next = await delegation.next();
    if (next.done) return { parts, result: next.value };
    parts.push(next.value);
  }
}

const delegating = (name: string, to: string, rest: object = {}) => ({
  name,
  adapter: { kind: "scripted", replies: [{ delegate: { name: to, task: "go on" }, say: "{result}", otherwise: "no" }] },
  ...rest,
});
const replying = (name: string, reply: object) => ({ name, adapter: { kind: "scripted", replies: [reply] } });
const speaking = (name: string, ...say: string[]) => replying(name, { say });
/** A master, and the agent "browser", which the test controls. */
const withBrowser = (browser: Run) => makeAgents([{ name: "master" }, { name: "browser" }], { browser });

describe("a sub-agent that works", () => {
  test("a sub-agent's parts name it as their author, and its text is the result", async () => {
    const setup = makeAgents([{ name: "master" }, speaking("browser", "It is ", "raining.")]);
    const { parts, result } = await ask(setup, "master", "browser");
    const agent = { kind: "sub", name: "browser", depth: 1, path: ["master", "browser"], calls: ["call_1"] };
    expect(parts).toEqual([
      { type: "text", text: "It is ", agent },
      { type: "text", text: "raining.", agent },
    ]);
    expect(result).toEqual({ ok: true, result: "It is raining." });
  });

  test("a sub-agent gets the task alone, in the same run and under the name of the call", async () => {
    let seen: unknown;
    const setup = withBrowser(async function* (turn) {
      seen = turn;
      yield { type: "text", text: "ok" };
    });
    await ask(setup, "master", "browser");
    const input = { id: "call_1", role: "user", content: "t" };
    expect(seen).toMatchObject({ runId: "run_1", attempt: 1, sessionId: "session_1", history: [], input });
  });

  test("a sub-agent's result is its own text, with its messages separated", async () => {
    const other: AgentRef = { kind: "sub", name: "x", depth: 2, path: ["master", "browser", "x"] };
    const setup = withBrowser(async function* () {
      yield { type: "reasoning", text: "hm" };
      yield { type: "text", text: "Let me " };
      yield { type: "text", text: "see." };
      yield { type: "tool-call", call: { toolCallId: "c", function: { name: "t", arguments: "{}" } } };
      yield { type: "text", text: "not its own", agent: other };
      yield { type: "message", content: "A whole message." };
      yield { type: "text", text: "Done." };
      yield { type: "provider-session", id: "of nobody's use" };
    });
    const { parts, result } = await ask(setup, "master", "browser");
    expect(result).toEqual({ ok: true, result: "Let me see.\n\nA whole message.\n\nDone." });
    expect(parts.find((part) => part.agent?.depth === 2)?.agent).toEqual(other);
    expect(parts.map(({ type }) => type)).not.toContain("provider-session");
  });

  test("a sub-agent's result is limited, and splits no character", async () => {
    const setup = makeAgents([{ name: "master" }, speaking("browser", "x", ...Array(10).fill("🎵".repeat(4_000)))]);
    const { result } = await ask(setup, "master", "browser");
    expect(result.ok && result.result.length).toBe(16_383);
    expect(result.ok && result.result.isWellFormed()).toBe(true);
  });

  test("a sub-agent asks the user through its run, and an approval for the session is valid for its next call in the run", async () => {
    const confirming = replying("b", { confirm: { tool: "delete_file" }, say: "deleted", otherwise: "kept" });
    const setup = makeAgents([{ name: "a" }, confirming]);
    const entry = setup.catalog.agents.get("a" as AgentId)!;
    const turn = { ...turnOf("hi"), tree: treeOf(entry, turnOf("hi")) };
    const stage = createRunStage();
    stage.willAnswer({ kind: "confirmation", verdict: "approve_always" }, { kind: "confirmation", verdict: "reject" });
    for (const toolCallId of ["call_1", "call_2"]) {
      const parts = await Array.fromAsync(setup.delegateOf("a")(orderOf("b", toolCallId), turn, stage.control));
      expect(parts.at(-1)).toMatchObject({ type: "text", text: "deleted" });
    }
    expect(stage.asked).toHaveLength(1);
  });

  test("every part of nested sub-agents names its place in the chain of calls", async () => {
    const setup = makeAgents([delegating("one", "two"), delegating("two", "three"), speaking("three", "deep")]);
    const { parts, result } = await ask(setup, "one", "two");
    expect(result).toEqual({ ok: true, result: "deep" });
    expect(parts.map(({ type, agent }) => `${type} ${agent?.path.join(">")} ${agent?.depth}`)).toEqual([
      "tool-call one>two 1",
      "text one>two>three 2",
      "tool-result one>two 1",
      "text one>two 1",
    ]);
  });
});

describe("a call that is refused", () => {
  const one = { name: "one" };
  const listing = { ...one, sub_agents: ["two"] };
  test.each([
    ["itself, which is checked first", listing, "one", "RECURSION"],
    ["an agent that is not on its list", listing, "off", "NOT_ALLOWED"],
    ["an unknown agent, if it has a list", listing, "nobody", "NOT_ALLOWED"],
    ["an unknown agent", one, "nobody", "NOT_FOUND"],
    ["a disabled agent", one, "off", "NOT_FOUND"],
    ["a name of every object", one, "__proto__", "NOT_FOUND"],
  ])("an agent cannot call %s", async (_, caller, name, code) => {
    const setup = makeAgents([caller, speaking("two", "ok"), { name: "off", enabled: false }]);
    const { parts, result } = await ask(setup, "one", name);
    expect([parts, result]).toMatchObject([[], { ok: false, error: { code } }]);
    expect((await ask(setup, "one", "two")).result).toEqual({ ok: true, result: "ok" });
  });

  test.each([
    [
      "cannot call an agent that waits for it further up the chain",
      [delegating("one", "two"), delegating("two", "one")],
      "RECURSION",
    ],
    [
      "calls others to the depth of the session's agent, which is checked before allow-lists",
      [
        delegating("one", "two", { max_depth: 1 }),
        delegating("two", "three", { sub_agents: ["four"], max_depth: 9 }),
        speaking("three", "deep"),
        { name: "four" },
      ],
      "MAX_DEPTH",
    ],
  ])("a sub-agent %s", async (_, agents, code) => {
    const { parts, result } = await ask(makeAgents(agents), "one", "two");
    const content = expect.stringContaining(code);
    expect(parts.find((part) => part.type === "tool-result")).toMatchObject({ status: "error", content });
    expect(result).toEqual({ ok: true, result: "no" });
  });

  test("a task has 1 to 6000 characters", () => {
    const isTask = (length: number) => Delegation.safeParse({ name: "a", task: "x".repeat(length) }).success;
    expect([0, 1, 6_000, 6_001].map(isTask)).toEqual([false, true, true, false]);
  });
});

describe("concurrent calls", () => {
  test("concurrent sub-agents have separate stacks, in any order of pulls", async () => {
    const setup = makeAgents([
      { name: "one" },
      delegating("two", "three"),
      delegating("three", "four"),
      speaking("four", "deep", "er"),
    ]);
    const turn = turnOf("hi");
    const { control } = createRunStage();
    const calls = ["two", "three", "two"].map((name, index) =>
      setup.delegateOf("one")(orderOf(name, `call_${index}`), turn, control),
    );
    const paths: string[][] = [[], [], []];
    const ids = new Set<string>();
    let calling = calls.map((_, index) => index);
    while (calling.length > 0) {
      const nexts = await Promise.all(calling.map(async (index) => ({ index, next: await calls[index]!.next() })));
      for (const { index, next } of nexts) {
        if (next.done) calling = calling.filter((other) => other !== index);
        else {
          paths[index]!.push(next.value.agent!.path.join(">"));
          if (next.value.type === "tool-call") ids.add(next.value.call.toolCallId);
        }
      }
    }
    expect(new Set(paths[0])).toEqual(new Set(["one>two", "one>two>three", "one>two>three>four"]));
    expect(new Set(paths[1])).toEqual(new Set(["one>three", "one>three>four"]));
    expect(paths[2]).toEqual(paths[0]);
    expect(ids.size).toBe(5);
  });

  test("the caller's stack is restored when the call has ended", async () => {
    const twice: Run = async function* (turn, control) {
      for (const toolCallId of ["call_a", "call_b"]) {
        yield* setup.delegateOf("one")(orderOf("two", toolCallId), turn, control);
      }
    };
    const setup = makeAgents([{ name: "master" }, { name: "one" }, speaking("two", "ok")], { one: twice });
    const { parts } = await ask(setup, "master", "one");
    expect(parts.map(({ agent }) => agent?.path.join(">"))).toEqual(["master>one>two", "master>one>two"]);
  });

  test("a run that a sub-agent of another run caused has a stack of its own", async () => {
    let other: Awaited<ReturnType<typeof ask>> | undefined;
    const setup = makeAgents([delegating("one", "two"), { name: "two" }, speaking("three", "ok")], {
      async *two() {
        other = await ask(setup, "one", "three", createRunStage(), turnOf("hi", { runId: "run_2" as RunId }));
        yield { type: "text", text: "done" };
      },
    });
    await ask(setup, "one", "two");
    expect(other!.result).toEqual({ ok: true, result: "ok" });
    expect(other!.parts[0]!.agent!.path).toEqual(["one", "three"]);
  });
});

describe("a sub-agent that fails", () => {
  const fault = new TypeError("secret.undefined is not a function");
  const internal = { code: "internal", message: "Something failed on the server." };
  const failure = new AppError("provider_rate_limited");
  const limited = { code: failure.code, message: "The model's provider asks to wait." };
  test.each([
    ["a failure is the result of its call: its text, then the error code", failure, limited],
    ["an internal error is reported without its text, and logged", fault, internal],
  ])("of a sub-agent %s", async (_, thrown, error) => {
    const setup = withBrowser(async function* () {
      yield { type: "text", text: "Let me" };
      throw thrown;
    });
    const { parts, result } = await ask(setup, "master", "browser");
    expect(parts).toHaveLength(1);
    expect(result).toEqual({ ok: false, error });
    expect(setup.faults).toEqual([thrown]);
  });
});

describe("the end of the calling agent", () => {
  test("an abort ends the sub-agent and then its caller, as an abort", async () => {
    const setup = makeAgents([{ name: "master" }, replying("radio", { say: "♪", repeat: 100, delay: "1h" })]);
    const stage = createRunStage({ time: "stands" });
    const delegation = setup.delegateOf("master")(orderOf("radio"), turnOf("hi"), stage.control);
    await delegation.next();
    const next = delegation.next();
    stage.abort();
    await expect(next).rejects.toThrow("aborted by the test");
    expect(stage.leftovers()).toEqual({ sleepers: 0, listeners: 0 });
    expect(setup.faults).toEqual([]);
  });

  test("an abort ends every process of a tree of sub-agents", async () => {
    // Each of five programs starts 40 processes, in sessions of their own, and every second one without its
    // environment.
    const script =
      'i=0; while [ $((i += 1)) -le 20 ]; do for e in "" -i; do /usr/bin/env $e /usr/bin/setsid /bin/sleep 600 & echo $!; done; done; wait';
    const program = { name: "program", adapter: { kind: "command", command: "/bin/sh", args: ["-c", script] } };
    const setup = makeAgents([{ name: "master" }, delegating("middle", "program"), program]);
    onTestFinished(() => setup.registry.close());
    const stage = createRunStage();
    const pids: number[] = [];
    const delegate = async (call: number) => {
      const order = orderOf("middle", `call_${call}`);
      for await (const part of setup.delegateOf("master")(order, turnOf("hi"), stage.control)) {
        const found = part.type === "text" ? (part.text.match(/\d+/g) ?? []).map(Number) : [];
        pids.push(...found);
        if (found.length > 0 && pids.length === 5 * 40) stage.abort();
      }
    };
    await Promise.allSettled(Array.from({ length: 5 }, (_, call) => delegate(call)));
    onTestFinished(() => {
      for (const pid of pids.filter(isAlive)) process.kill(pid, "SIGKILL");
    });
    expect([new Set(pids).size, pids.filter(isAlive)]).toEqual([200, []]);
  });

  test("a sub-agent that ends silently on an abort has no result either", async () => {
    const stage = createRunStage();
    const setup = makeAgents([{ name: "master" }, { name: "quiet" }], {
      async *quiet() {
        yield { type: "text", text: "half" };
        stage.abort();
      },
    });
    await expect(ask(setup, "master", "quiet", stage)).rejects.toThrow("aborted by the test");
  });

  test("a caller that returns early ends the sub-agent", async () => {
    let hasEnded = false;
    const setup = withBrowser(async function* () {
      try {
        yield { type: "text", text: "a" };
        yield { type: "text", text: "b" };
      } finally {
        hasEnded = true;
      }
    });
    const delegation = setup.delegateOf("master")(orderOf("browser"), turnOf("hi"), createRunStage().control);
    await delegation.next();
    await delegation.return({ ok: true, result: "" });
    expect(hasEnded).toBe(true);
  });
});
