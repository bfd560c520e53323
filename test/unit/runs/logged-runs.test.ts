import { expect, test } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { WorkerOptions } from "../../../src/runs/worker.ts";
import { createLog } from "../../../src/system/log.ts";
import { giveAway, singer, startLoneWorker } from "../../support/nodes/lone-worker.ts";

/** Every log line about this run has these fields. */
const ABOUT = { floorId: "u:ann", sessionId: "song", runId: "run", traceId: "4bf92f3577b34da6a3ce929d0e0e4736" };

/** The first log line once a worker has this run. */
async function firstLine(agent: Agent, ask: WorkerOptions["send"]): Promise<object> {
  const line = Promise.withResolvers<object>();
  const log = createLog("warn", { write: (text) => line.resolve(JSON.parse(text)) });
  await startLoneWorker({ agent, send: ask, log });
  return await line.promise;
}

const failing = (fault: Error) =>
  // biome-ignore lint/correctness/useYield: it fails before it yields
  singer(async function* () {
    throw fault;
  });

test("an agent that failed is logged with its floor, session, run, attempt and trace", async () => {
  expect(await firstLine(failing(new Error("out of tune")), giveAway)).toMatchObject({
    msg: "an agent failed",
    ...ABOUT,
    attempt: 2,
    agentId: "singer",
    err: { message: "out of tune" },
  });
});

test("a failure that the user sees is logged too, with its code and its cause", async () => {
  const failure = new AppError("provider_unreachable", undefined, { cause: new Error("AI_APICallError 503") });
  expect(await firstLine(failing(failure), giveAway)).toMatchObject({
    msg: "a run failed",
    ...ABOUT,
    attempt: 2,
    agentId: "singer",
    code: "provider_unreachable",
    reason: "AI_APICallError 503",
  });
});

test("a run that could not be taken is logged with the same fields", async () => {
  const refuse = () => Promise.reject(new AppError("unavailable"));
  expect(await firstLine(failing(new Error("never asked")), refuse)).toMatchObject({
    msg: "a run could not be claimed; the worker tries again",
    ...ABOUT,
  });
});
