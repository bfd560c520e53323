import { expect, test } from "vitest";
import type { Agent, Part, RunControl } from "../../../src/agents/agent.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { RouterQuestions } from "../../../src/gateway/router-questions.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { RouterAnswers } from "../../../src/runs/router-answers.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const CATALOG = makeCatalog([{ name: "router" }, { name: "music" }]);
const ROW = {
  kind: "ask",
  agent: "router" as AgentId,
  among: ["music" as AgentId],
  withinMs: 800,
} as const;

const text = (...pieces: string[]): Part[] => pieces.map((piece) => ({ type: "text", text: piece }));

/** A gateway, and workers whose router agents run so. */
async function stage(...runs: ((content: string, control: RunControl) => AsyncIterable<Part>)[]) {
  const [bus, clock] = [new MemoryBus(), new VirtualClock()];
  const asked: string[] = [];
  let ids = 0;
  const newId = () => `id${++ids}`;
  for (const [index, run] of runs.entries()) {
    const agent = {
      id: "router",
      run: (turn: { input: { content: string } }, control: RunControl) => {
        asked.push(`${index}: ${turn.input.content}`);
        return run(turn.input.content, control);
      },
    } as unknown as Agent;
    const agents = { find: () => agent, canRun: (id: AgentId) => id === "router" };
    await new RouterAnswers({ bus, epoch: "e", nodeId: `n${index}`, agents, clock, newId }).start();
  }
  const questions = new RouterQuestions({ bus, epoch: "e", clock, newId });
  return { clock, asked, ask: (sentence = "hm") => questions.ask(ROW, CATALOG, sentence, undefined) };
}

async function* writes(...parts: Part[]) {
  yield* parts;
}

test("one worker is asked, and its agent's name is read without quotes and dots", async () => {
  const { ask, asked } = await stage(
    () => writes(...text("“mu", "sic”.\n")),
    () => writes(...text("music")),
  );
  expect(await ask("play")).toEqual({ named: "music" });
  expect(asked).toEqual(["0: play"]);
});

test("the tokens of an answer are told with it, also if it is no name", async () => {
  const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
  const { ask } = await stage(() => writes({ type: "usage", usage }, ...text("music"), { type: "usage", usage }));
  const sum = { prompt_tokens: 6, completion_tokens: 2, total_tokens: 8 };
  expect(await ask()).toEqual({ named: "music", usage: sum });
  const flood = await stage(() => writes({ type: "usage", usage }, ...text("x".repeat(1_000))));
  expect(await flood.ask()).toEqual({ why: "too_much", usage });
});

test("an agent that fails leaves the sentence to the next row", async () => {
  const { ask } = await stage(async function* () {
    yield* text("mu");
    throw new Error("no provider");
  });
  expect(await ask()).toEqual({ why: "failed" });
});

test("an agent that floods is stopped after a name's length", async () => {
  let pieces = 0;
  const { ask } = await stage(async function* () {
    for (; ; pieces += 1) yield* text("x".repeat(100));
  });
  expect(await ask()).toEqual({ why: "too_much" });
  expect(pieces).toBeLessThan(5);
});

test("an agent that hangs is late, and its run is aborted although it does not end", async () => {
  const begun = Promise.withResolvers<AbortSignal>();
  const { ask, clock } = await stage((_, { signal }) => {
    begun.resolve(signal);
    return { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) };
  });
  const asking = ask();
  const signal = await begun.promise;
  await clock.advance(800);
  expect(await asking).toEqual({ why: "late" });
  expect(signal.aborted).toBe(true);
});

test("without a worker the question is late", async () => {
  const { ask, clock } = await stage();
  const asking = ask();
  await clock.advance(800);
  expect(await asking).toEqual({ why: "late" });
});

test("an agent that asks its user fails", async () => {
  const { ask } = await stage(async function* (_, control) {
    await control.askUser({ kind: "question", question: "which?", options: [] });
    yield* text("music");
  });
  expect(await ask()).toEqual({ why: "failed" });
});

test("a router agent gets the beginning of a sentence of 100 KB", async () => {
  const { ask, asked } = await stage(() => writes(...text("music")));
  await ask("x".repeat(100_000));
  expect(asked[0]).toHaveLength("0: ".length + 1_000);
});
