import { describe, expect, onTestFinished, test } from "vitest";
import type { Agent, Part } from "../../../src/agents/agent.ts";
import { createDelegate, Delegation, type DelegationResult, treeOf } from "../../../src/agents/sub-agent.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, RunId } from "../../../src/protocol/ids.ts";
import type { AgentRef } from "../../../src/protocol/message.ts";
import { isAlive } from "../../support/agents/processes.ts";
import { createRunStage, type RunStage, turnOf } from "../../support/agents/run-stage.ts";
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

/** Let `caller` ask `name`; `caller` is the session's agent. */
async function ask(
  setup: ReturnType<typeof makeAgents>,
  caller: string,
  name: string,
  stage: RunStage = createRunStage(),
): Promise<{ parts: Part[]; result: DelegationResult }> {
  const delegation = setup.delegateOf(caller)({ name, task: "t", toolCallId: "call_1" }, turnOf("hi"), stage.control);
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
const speaking = (name: string, ...say: string[]) => ({ name, adapter: { kind: "scripted", replies: [{ say }] } });

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
    const setup = makeAgents([{ name: "master" }, { name: "browser" }], {
      async *browser(turn) {
        seen = turn;
        yield { type: "text", text: "ok" };
      },
    });
    await ask(setup, "master", "browser");
    expect(seen).toMatchObject({ runId: "run_1", attempt: 1, sessionId: "session_1", history: [] });
    expect(seen).toMatchObject({ input: { id: "call_1", role: "user", content: "t" } });
  });

  test("a sub-agent's result is its own text, with its messages separated", async () => {
    const other: AgentRef = { kind: "sub", name: "x", depth: 2, path: ["master", "browser", "x"] };
    const setup = makeAgents([{ name: "master" }, { name: "browser" }], {
      async *browser() {
        yield { type: "reasoning", text: "hm" };
        yield { type: "text", text: "Let me " };
        yield { type: "text", text: "see." };
        yield { type: "tool-call", call: { toolCallId: "c", function: { name: "t", arguments: "{}" } } };
        yield { type: "text", text: "not its own", agent: other };
        yield { type: "message", content: "A whole message." };
        yield { type: "text", text: "Done." };
        yield { type: "provider-session", id: "of nobody's use" };
      },
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

  test("a sub-agent asks the user through the run in which it works", async () => {
    const setup = makeAgents([
      { name: "master" },
      {
        name: "browser",
        adapter: { kind: "scripted", replies: [{ ask: { question: "Where?" }, say: "Near {answer}." }] },
      },
    ]);
    const stage = createRunStage();
    stage.willAnswer({ kind: "question", selected: ["here"] });
    expect((await ask(setup, "master", "browser", stage)).result).toEqual({ ok: true, result: "Near here." });
  });

  test("an approval for the session that a sub-agent got is valid for its next call in the run", async () => {
    const confirming = { confirm: { tool: "delete_file" }, say: "deleted", otherwise: "kept" };
    const setup = makeAgents([{ name: "a" }, { name: "b", adapter: { kind: "scripted", replies: [confirming] } }]);
    const entry = setup.catalog.agents.get("a" as AgentId)!;
    const turn = { ...turnOf("hi"), tree: treeOf(entry, turnOf("hi")) };
    const stage = createRunStage();
    stage.willAnswer({ kind: "confirmation", verdict: "approve_always" }, { kind: "confirmation", verdict: "reject" });
    for (const toolCallId of ["call_1", "call_2"]) {
      const parts = await Array.fromAsync(
        setup.delegateOf("a")({ name: "b", task: "t", toolCallId }, turn, stage.control),
      );
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
  const codeOf = async (setup: ReturnType<typeof makeAgents>, caller: string, name: string) => {
    const { parts, result } = await ask(setup, caller, name);
    expect(parts).toEqual([]);
    return result.ok ? undefined : result.error.code;
  };

  test("an agent cannot call itself, and this is checked first", async () => {
    const setup = makeAgents([{ name: "one", enabled: true, sub_agents: ["two"] }, { name: "two" }]);
    expect(await codeOf(setup, "one", "one")).toBe("RECURSION");
  });

  test("a sub-agent cannot call an agent that waits for it further up the chain", async () => {
    const setup = makeAgents([delegating("one", "two"), delegating("two", "one")]);
    const { parts, result } = await ask(setup, "one", "two");
    expect(parts.find((part) => part.type === "tool-result")).toMatchObject({
      status: "error",
      content: expect.stringContaining("RECURSION"),
    });
    expect(result).toEqual({ ok: true, result: "no" });
  });

  test("the session's agent limits the depth of calls, which is checked before allow-lists", async () => {
    const setup = makeAgents([
      delegating("one", "two", { max_depth: 1 }),
      delegating("two", "three", { sub_agents: ["four"], max_depth: 9 }),
      speaking("three", "deep"),
      { name: "four" },
    ]);
    const { parts } = await ask(setup, "one", "two");
    expect(parts.find((part) => part.type === "tool-result")).toMatchObject({
      content: expect.stringContaining("MAX_DEPTH"),
    });
  });

  test("an agent calls only the sub-agents on its list, if it has one", async () => {
    const setup = makeAgents([
      { name: "one", sub_agents: ["two"] },
      speaking("two", "ok"),
      { name: "three", enabled: false },
    ]);
    expect(await codeOf(setup, "one", "three")).toBe("NOT_ALLOWED");
    expect(await codeOf(setup, "one", "nobody")).toBe("NOT_ALLOWED");
    expect((await ask(setup, "one", "two")).result).toEqual({ ok: true, result: "ok" });
  });

  test("an agent that is unknown or disabled is not found", async () => {
    const setup = makeAgents([{ name: "one" }, { name: "two", enabled: false }]);
    expect(await codeOf(setup, "one", "nobody")).toBe("NOT_FOUND");
    expect(await codeOf(setup, "one", "two")).toBe("NOT_FOUND");
    expect(await codeOf(setup, "one", "__proto__")).toBe("NOT_FOUND");
  });

  test("a task has 1 to 6000 characters", () => {
    expect(Delegation.safeParse({ name: "a", task: "" }).success).toBe(false);
    expect(Delegation.safeParse({ name: "a", task: "x".repeat(6_001) }).success).toBe(false);
    expect(Delegation.safeParse({ name: "a", task: "x".repeat(6_000) }).success).toBe(true);
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
      setup.delegateOf("one")({ name, task: "t", toolCallId: `call_${index}` }, turn, control),
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
        yield* setup.delegateOf("one")({ name: "two", task: "t", toolCallId }, turn, control);
      }
    };
    const setup = makeAgents([{ name: "master" }, { name: "one" }, speaking("two", "ok")], { one: twice });
    const { parts } = await ask(setup, "master", "one");
    expect(parts.map(({ agent }) => agent?.path.join(">"))).toEqual(["master>one>two", "master>one>two"]);
  });

  test("a run that a sub-agent of another run caused has a stack of its own", async () => {
    let other: Awaited<ReturnType<typeof ask>> | undefined;
    const setup = makeAgents([delegating("one", "two"), { name: "two" }, speaking("three", "ok")], {
      async *two(_, control) {
        const turn = turnOf("hi", { runId: "run_2" as RunId });
        const call = { name: "three", task: "t", toolCallId: "c" };
        const delegation = setup.delegateOf("one")(call, turn, control);
        const parts: Part[] = [];
        for (let next = await delegation.next(); ; next = await delegation.next()) {
          if (next.done) {
            other = { parts, result: next.value };
            break;
          }
          parts.push(next.value);
        }
        yield { type: "text", text: "done" };
      },
    });
    await ask(setup, "one", "two");
    expect(other!.result).toEqual({ ok: true, result: "ok" });
    expect(other!.parts[0]!.agent!.path).toEqual(["one", "three"]);
  });
});

describe("a sub-agent that fails", () => {
  test("a sub-agent's failure is the result of its call: its text, then the error code", async () => {
    const setup = makeAgents([{ name: "master" }, { name: "browser" }], {
      async *browser() {
        yield { type: "text", text: "Let me" };
        throw new AppError("provider_rate_limited");
      },
    });
    const { parts, result } = await ask(setup, "master", "browser");
    expect(parts).toHaveLength(1);
    expect(result).toEqual({
      ok: false,
      error: { code: "provider_rate_limited", message: "The model's provider asks to wait." },
    });
  });

  test("an internal error is reported without its text, and logged", async () => {
    const fault = new TypeError("secret.undefined is not a function");
    const setup = makeAgents([{ name: "master" }, { name: "browser" }], {
      // biome-ignore lint/correctness/useYield: it fails before it yields
      async *browser() {
        throw fault;
      },
    });
    const { result } = await ask(setup, "master", "browser");
    expect(result).toEqual({
      ok: false,
      error: { code: "internal", message: "Something failed on the server." },
    });
    expect(setup.faults).toEqual([fault]);
  });
});

describe("the end of the calling agent", () => {
  test("an abort ends the sub-agent and then its caller, as an abort", async () => {
    const setup = makeAgents([
      { name: "master" },
      { name: "radio", adapter: { kind: "scripted", replies: [{ say: "♪", repeat: 100, delay: "1h" }] } },
    ]);
    const stage = createRunStage({ time: "stands" });
    const call = { name: "radio", task: "t", toolCallId: "c" };
    const delegation = setup.delegateOf("master")(call, turnOf("hi"), stage.control);
    await delegation.next();
    const next = delegation.next();
    stage.abort();
    await expect(next).rejects.toThrow("aborted by the test");
    expect(stage.leftovers()).toEqual({ sleepers: 0, listeners: 0 });
    expect(setup.faults).toEqual([]);
  });

  test("an abort ends every process of a tree of sub-agents", async () => {
    // Each of five programs starts 40 processes, in sessions of their own, and every second one without its environment.
    const script =
      'i=0; while [ $((i += 1)) -le 20 ]; do for e in "" -i; do /usr/bin/env $e /usr/bin/setsid /bin/sleep 600 & echo $!; done; done; wait';
    const program = { name: "program", adapter: { kind: "command", command: "/bin/sh", args: ["-c", script] } };
    const setup = makeAgents([{ name: "master" }, delegating("middle", "program"), program]);
    onTestFinished(() => setup.registry.close());
    const stage = createRunStage();
    const pids: number[] = [];
    const delegate = async (call: number) => {
      const order = { name: "middle", task: "t", toolCallId: `call_${call}` };
      const delegation = setup.delegateOf("master")(order, turnOf("hi"), stage.control);
      for (;;) {
        const next = await delegation.next();
        if (next.done) return;
        const found = next.value.type === "text" ? (next.value.text.match(/\d+/g) ?? []).map(Number) : [];
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
    const setup = makeAgents([{ name: "master" }, { name: "browser" }], {
      async *browser() {
        try {
          yield { type: "text", text: "a" };
          yield { type: "text", text: "b" };
        } finally {
          hasEnded = true;
        }
      },
    });
    const call = { name: "browser", task: "t", toolCallId: "c" };
    const delegation = setup.delegateOf("master")(call, turnOf("hi"), createRunStage().control);
    await delegation.next();
    await delegation.return({ ok: true, result: "" });
    expect(hasEnded).toBe(true);
  });
});
