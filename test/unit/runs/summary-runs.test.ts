import { expect, test } from "vitest";
import type { Agent, Part, RunControl, SummaryRequest } from "../../../src/agents/agent.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { Puppet, PuppetRun } from "../../support/agents/puppet.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { WorkerStage } from "../../support/nodes/worker-stage.ts";

const WHO_DRIVES_MS = 250;
const SWEEP_MS = 10_000;

/** A worker whose agent summarises after each turn, with summaries from the test. */
async function open() {
  const stage = await WorkerStage.open();
  stage.floors.catalog = makeCatalog([
    {
      name: "music",
      adapter: { kind: "ai-sdk", provider: "openai", model: "m", yields: "hold", summary: { after: 1 } },
    },
  ]);
  const puppet = new Puppet("music");
  const summaries: PuppetRun[] = [];
  const summarize = (request: SummaryRequest, control: RunControl): AsyncIterable<Part> => {
    const run = new PuppetRun(request as never, control);
    summaries.push(run);
    return run.play();
  };
  stage.agents.set("music", Object.assign(puppet, { summarize }) as Agent);
  /** A complete turn of a new session. */
  const talk = async (userId: string) => {
    await stage.create(userId);
    await stage.chat(userId);
    puppet.last.say("la");
    puppet.last.end();
    await stage.clock.advance(0);
  };
  const summaryOf = async (userId: string) => {
    const page = await stage.floors.store.store.listMessages(userId as SessionId, { limit: 500 });
    return page!.messages.filter(({ summary }) => summary).map(({ content }) => content);
  };
  return { stage, puppet, summaries, talk, summaryOf };
}

test("a summary occupies no place of a run, and a run no place of a summary", async () => {
  const { stage, puppet, summaries, talk, summaryOf } = await open();
  const worker = await stage.startWorker({ concurrency: 1 });
  await talk("ann");
  expect(summaries).toHaveLength(1);
  await talk("bob");
  expect([puppet.runs.length, summaries.length, worker.counts.underWay]).toEqual([2, 2, 0]);
  await stage.create("eve");
  await stage.chat("eve");
  expect(worker.counts.underWay).toBe(1);
  for (const summary of summaries) {
    summary.say("In short.");
    summary.end();
  }
  await stage.clock.advance(0);
  expect([await summaryOf("ann"), await summaryOf("bob")]).toEqual([["In short."], ["In short."]]);
  expect(await stage.effects()).toHaveLength(1);
});

test("a worker writes four summaries at once; the others follow with the next sweep", async () => {
  const { stage, summaries, talk, summaryOf } = await open();
  await stage.startWorker();
  const users = ["a", "b", "c", "d", "e"];
  for (const user of users) await talk(user);
  expect(summaries).toHaveLength(4);
  for (const summary of summaries) {
    summary.say("In short.");
    summary.end();
  }
  await stage.clock.advance(2 * SWEEP_MS);
  expect(summaries).toHaveLength(5);
  expect(await summaryOf("d")).toEqual(["In short."]);
});

test("a summary that is offered to several workers, repeatedly, is written once", async () => {
  const { stage, summaries, talk, summaryOf } = await open();
  await stage.startWorker();
  await stage.startWorker();
  await talk("ann");
  await stage.clock.advance(2 * SWEEP_MS);
  expect(summaries).toHaveLength(1);
  summaries[0]!.say("In short.");
  summaries[0]!.end();
  await stage.clock.advance(0);
  expect(await summaryOf("ann")).toEqual(["In short."]);
});

test("a summary whose worker is gone is written by another, and the first worker's late output changes nothing", async () => {
  const { stage, summaries, talk, summaryOf } = await open();
  const first = await stage.startWorker();
  await talk("ann");
  first.isCutOff = true;
  first.isOffered = false;
  await stage.startWorker();
  await stage.clock.advance(2 * SWEEP_MS + WHO_DRIVES_MS);
  expect(summaries).toHaveLength(2);
  summaries[1]!.say("The second.");
  summaries[1]!.end();
  await stage.clock.advance(0);
  first.isCutOff = false;
  summaries[0]!.say("The first.");
  summaries[0]!.end();
  await stage.clock.advance(SWEEP_MS);
  expect(await summaryOf("ann")).toEqual(["The second."]);
});

test("archiving a session stops its summary at once", async () => {
  const { stage, summaries, talk, summaryOf } = await open();
  await stage.startWorker();
  await talk("ann");
  await stage.on("ann", "archive");
  expect(summaries[0]!.isOver).toBe(true);
  expect([await summaryOf("ann"), await stage.effects()]).toEqual([[], []]);
});

test("a stopping worker gives its summaries back at once", async () => {
  const { stage, summaries, talk } = await open();
  const first = await stage.startWorker();
  await talk("ann");
  first.isOffered = false;
  await stage.startWorker();
  const stopped = first.worker.stop({ graceMs: 60_000, giveBackMs: 1_000 });
  await stage.clock.advance(0);
  expect([summaries[0]!.isOver, summaries.length]).toEqual([true, 2]);
  await stage.clock.advance(61_000);
  await stopped;
});
