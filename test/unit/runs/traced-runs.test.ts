import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { SpanAttributes, Tracer } from "../../../src/shared/ports/tracer.ts";
import { createLog } from "../../../src/system/log.ts";
import { finish } from "../../support/agents/puppet.ts";
import { sing, type WorkerOptions, WorkerStage } from "../../support/nodes/worker-stage.ts";

/** The trace of the commits that request runs, and that of a run's span. */
const COMMIT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const RUN = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01";

async function open(options: WorkerOptions) {
  const stage = await WorkerStage.open();
  stage.trace = COMMIT;
  return { stage, worker: await stage.startWorker(options) };
}

/** Ann's run in its second attempt: a call has ended the first one. */
async function openSecond(options: WorkerOptions = {}) {
  const { stage, worker } = await open(options);
  await sing(stage, "ann", "restless");
  await stage.ring("ann");
  await stage.hangUp("ann");
  const { last } = stage.puppet("restless");
  expect(last.turn.attempt).toBe(2);
  return { stage, last, asked: () => worker.asked.map(({ command, trace }) => [command.type, trace]) };
}

/** A log, and its lines so far. */
function keepLines() {
  const lines: object[] = [];
  return { lines, log: createLog("warn", { write: (text) => void lines.push(JSON.parse(text)) }) };
}

/** Every log line about this run has these fields. */
const ABOUT = { floorId: "u:ann", sessionId: "ann", runId: "run-ann", traceId: "4bf92f3577b34da6a3ce929d0e0e4736" };

test.each([
  ["an agent that failed", new Error("out of tune"), { msg: "an agent failed", err: { message: "out of tune" } }],
  [
    "a failure that the user sees, with its code and its cause,",
    new AppError("provider_unreachable", undefined, { cause: new Error("AI_APICallError 503") }),
    { msg: "a run failed", code: "provider_unreachable", reason: "AI_APICallError 503" },
  ],
])("%s is logged with its floor, session, run and trace", async (_, fault, line) => {
  const { lines, log } = keepLines();
  const { stage, last } = await openSecond({ log });
  last.fail(fault);
  await stage.clock.advance(0);
  expect(lines).toMatchObject([{ ...ABOUT, attempt: 2, agentId: "restless", ...line }]);
});

test("a run that could not be taken is logged with its floor, session, run and trace", async () => {
  const { lines, log } = keepLines();
  const { stage, worker } = await open({ log });
  worker.isCutOff = true;
  await stage.create("ann");
  await stage.chat("ann");
  expect(lines).toMatchObject([{ ...ABOUT, msg: "a run could not be claimed; the worker tries again" }]);
});

test("a run's span is a child of the commit that requested it, and has its reports as children", async () => {
  const begun: unknown[] = [];
  const ended: SpanAttributes[] = [];
  const tracer: Tracer = {
    begin(...told) {
      begun.push(told);
      return { trace: RUN, end: (facts) => void ended.push(facts) };
    },
  };
  const { stage, last, asked } = await openSecond({ tracer });
  await stage.clock.advance(60_000);
  await finish(stage, last, "la");
  const facts = { "interlock.session.id": "ann", "interlock.run.id": "run-ann" };
  const span = (attempt: number) => expect.objectContaining({ ...facts, "interlock.attempt": attempt });
  expect(begun).toEqual([1, 2].map((attempt) => ["run", "run", COMMIT, span(attempt)]));
  expect(ended).toEqual([{ "interlock.outcome": "stopped" }, { "interlock.outcome": "done" }]);
  const tracesOf = (name: string) => asked().flatMap(([type, trace]) => (type === name ? [trace] : []));
  expect(tracesOf("run.claim")).toEqual([COMMIT, COMMIT]);
  expect(tracesOf("run.still").length).toBeGreaterThan(5);
  expect(new Set(tracesOf("run.still"))).toEqual(new Set([undefined]));
  expect(new Set(tracesOf("run.report"))).toEqual(new Set([RUN]));
});

test("a worker without tracing passes on the trace that it was given", async () => {
  const { stage, last, asked } = await openSecond();
  await finish(stage, last, "la");
  expect(asked().at(-1)).toEqual(["run.report", COMMIT]);
});
