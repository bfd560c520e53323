import { expect, test } from "vitest";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { SpanAttributes, Tracer } from "../../../src/shared/ports/tracer.ts";
import { giveAway, RUN_REQUEST, singer, startLoneWorker } from "../../support/nodes/lone-worker.ts";

const RUN = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01";

/** Runs for a minute, and writes a message at the end. */
const patient = singer(async function* (_, control) {
  await control.sleep(60_000);
  yield { type: "text", text: "la" };
});

/** The asks to the floor, each with its trace. */
function listen() {
  const asked: [type: string, trace: string | undefined][] = [];
  const ask = (envelope: Envelope) => {
    asked.push([envelope.command.type, envelope.trace]);
    return giveAway(envelope);
  };
  return { asked, ask };
}

test("a run's span is a child of the commit that requested it, and has its reports as children", async () => {
  const { asked, ask } = listen();
  const begun: unknown[] = [];
  const ended: SpanAttributes[] = [];
  const tracer: Tracer = {
    begin(...told) {
      begun.push(told);
      return { trace: RUN, end: (facts) => void ended.push(facts) };
    },
  };
  const clock = await startLoneWorker({ agent: patient, send: ask, tracer });
  await clock.advance(61_000);
  const facts = { "interlock.session.id": "song", "interlock.run.id": "run", "interlock.attempt": 2 };
  expect(begun).toEqual([["run", "run", RUN_REQUEST.trace, expect.objectContaining(facts)]]);
  expect(ended).toEqual([{ "interlock.outcome": "done" }]);
  expect(asked[0]).toEqual(["run.claim", RUN_REQUEST.trace]);
  const stills = asked.filter(([type]) => type === "run.still");
  expect(stills.length).toBeGreaterThan(5);
  // Every try fails.
  expect(new Set(stills.map(([, trace]) => trace))).toEqual(new Set([undefined]));
  const reports = asked.filter(([type]) => type === "run.report");
  expect(new Set(reports.map(([, trace]) => trace))).toEqual(new Set([RUN]));
});

test("the span of a summary's run is called summary", async () => {
  const { ask } = listen();
  const asSummary = async (envelope: Envelope) => {
    const reply = await ask(envelope);
    return reply.ok && reply.task ? { ...reply, task: { ...reply.task, purpose: "summary" as const } } : reply;
  };
  const begun: string[] = [];
  const tracer: Tracer = {
    begin(_, name) {
      begun.push(name);
      return { trace: RUN, end: () => {} };
    },
  };
  const clock = await startLoneWorker({ agent: patient, send: asSummary, tracer });
  await clock.advance(0);
  expect(begun).toEqual(["summary"]);
});

test("a worker without tracing passes on the trace that it was given", async () => {
  const { asked, ask } = listen();
  const clock = await startLoneWorker({ agent: patient, send: ask });
  await clock.advance(61_000);
  expect(asked.at(-1)).toEqual(["run.report", RUN_REQUEST.trace]);
});
