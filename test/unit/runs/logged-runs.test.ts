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

const unreachable = new AppError("provider_unreachable", undefined, { cause: new Error("AI_APICallError 503") });
const refuse = () => Promise.reject(new AppError("unavailable"));
const OF_AGENT = { attempt: 2, agentId: "singer" };

test.each<[what: string, line: object, fault: Error, ask?: WorkerOptions["send"]]>([
  [
    "an agent that failed",
    { msg: "an agent failed", ...OF_AGENT, err: { message: "out of tune" } },
    new Error("out of tune"),
  ],
  [
    "a failure that the user sees, with its code and its cause,",
    { msg: "a run failed", ...OF_AGENT, code: "provider_unreachable", reason: "AI_APICallError 503" },
    unreachable,
  ],
  [
    "a run that could not be taken",
    { msg: "a run could not be claimed; the worker tries again" },
    new Error("never asked"),
    refuse,
  ],
])("%s is logged with its floor, session, run and trace", async (_, line, fault, ask = giveAway) => {
  expect(await firstLine(failing(fault), ask)).toMatchObject({ ...ABOUT, ...line });
});
