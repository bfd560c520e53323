import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { MessageId, RequestId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { Directive, ReportPart } from "../../../src/protocol/internal/run.ts";
import { masterRef } from "../../../src/protocol/message.ts";
import { Reporter } from "../../../src/runs/reporter.ts";
import { ControlledFloor } from "../../support/floors/controlled-floor.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const MAX_UNACKNOWLEDGED_UNITS = 262_144;
const MAX_REPORT_UNITS = 32_768;
const MAX_REPORT_PARTS = 500;
const GO: Directive = { verdict: "go", answers: [] };
const ABOUT = { sessionId: "s" as SessionId, runId: "r" as RunId, attempt: 2 };

function makeReporter() {
  const clock = new VirtualClock();
  const floor = new ControlledFloor();
  const directives: Directive[] = [];
  const lost: unknown[] = [];
  const reporter = new Reporter({
    ...ABOUT,
    clock,
    send: floor.ask,
    onDirective: (directive) => void directives.push(directive),
    onLost: (error) => void lost.push(error),
  });
  /** More output, and the time until the next. */
  const give = async (ms: number, ...parts: ReportPart[]) => {
    for (const part of parts) reporter.add(part);
    await clock.advance(ms);
  };
  /** What is ready is sent at once. */
  const flush = async (...parts: Parameters<Reporter["add"]>[0][]) => {
    for (const part of parts) reporter.add(part);
    reporter.flush();
    await clock.advance(0);
  };
  return { clock, floor, reporter, directives, lost, give, flush };
}

const append = (offset: number, text: string, messageId = "m"): ReportPart => ({
  kind: "append",
  messageId: messageId as MessageId,
  offset,
  text,
});
const usage: ReportPart = { kind: "usage", usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } };
const question = (requestId: string): ReportPart => ({
  kind: "ask",
  interaction: { kind: "question", requestId: requestId as RequestId, question: "Which?", options: [] },
});

/** Whether a promise is already fulfilled. */
async function isDone(promise: Promise<unknown>, clock: VirtualClock): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await clock.advance(0);
  return done;
}

test("a question that is withdrawn before it was reported is withdrawn in the report after it", async () => {
  const { floor, flush } = makeReporter();
  await flush(append(0, "la "), question("q1"), { kind: "withdraw", requestId: "q1" as RequestId }, usage);
  expect(floor.reports.map(({ n, parts, withdrawn }) => [n, parts.map(({ kind }) => kind), withdrawn])).toEqual([
    [1, ["append", "ask"], undefined],
    [2, ["usage"], ["q1"]],
  ]);
});

test("a report says beside its parts after what the agent tries again, the last time if there were several", async () => {
  const { floor, flush } = makeReporter();
  const retry = (delayMs: number) => ({ kind: "retry", after: "provider_unreachable", delayMs }) as const;
  await flush(append(0, "la "), retry(500), retry(900));
  expect(floor.asked).toMatchObject([{ n: 1, parts: [{ kind: "append" }], retry: { delayMs: 900 } }]);
});

test("a report contains the output of a quarter of a second, with the words of a message joined", async () => {
  const { clock, floor, give } = makeReporter();
  await give(100, append(0, "la "));
  await give(149, append(3, "li "), usage, append(6, "lu"), append(0, "another", "n"));
  expect(floor.asked).toEqual([]);
  await clock.advance(1);
  const parts = [append(0, "la li "), usage, append(6, "lu"), append(0, "another", "n")];
  expect(floor.asked).toEqual([{ type: "run.report", ...ABOUT, n: 1, parts }]);
});

test("a report is made at once when 4 KiB wait", async () => {
  const { floor, give } = makeReporter();
  await give(0, append(0, "x".repeat(4_095)));
  expect(floor.asked).toEqual([]);
  await give(0, append(4_095, "x"));
  expect(floor.reports).toMatchObject([{ n: 1, parts: [append(0, "x".repeat(4_096))] }]);
});

test("reports are numbered and sent one at a time: later output goes into the next", async () => {
  const { clock, floor, give } = makeReporter();
  floor.hold();
  await give(250, append(0, "a"));
  for (let n = 1; n <= 20; n++) await give(100, append(n, "b"));
  expect(floor.reports.map(({ n }) => n)).toEqual([1]);
  floor.release();
  await clock.advance(0);
  await give(250, append(21, "c"));
  expect(floor.reports.map(({ n, parts }) => [n, parts])).toEqual([
    [1, [append(0, "a")]],
    [2, [append(1, "b".repeat(20))]],
    [3, [append(21, "c")]],
  ]);
  expect(floor.mostUnderWay).toBe(1);
});

test("a report has a maximum size, in text and in parts, and keeps the order", async () => {
  const { floor, give } = makeReporter();
  const words = Array.from({ length: 5 }, (_, n) => append(0, "x".repeat(10_000), `m${n}`));
  // Two agents that write in turn, one character at a time.
  const turns = Array.from({ length: 2 * MAX_REPORT_PARTS }, (_, n) => append(n, "x", n % 2 ? "a" : "b"));
  await give(0, ...words, ...turns);
  expect(floor.parts).toEqual([...words, ...turns]);
  expect(floor.reports.some(({ parts }) => parts.length === MAX_REPORT_PARTS)).toBe(true);
  for (const { parts } of floor.reports) {
    expect(parts.length).toBeLessThanOrEqual(MAX_REPORT_PARTS);
    const units = parts.reduce((sum, part) => sum + (part.kind === "append" ? part.text.length : 0), 0);
    expect(units).toBeLessThanOrEqual(MAX_REPORT_UNITS);
  }
  expect(floor.reports.map(({ n }) => n)).toEqual(floor.reports.map((_, index) => index + 1));
});

test("a report may contain one part that is larger than the maximum", async () => {
  const { floor, give } = makeReporter();
  await give(0, append(0, "x".repeat(MAX_REPORT_UNITS + 1)));
  expect(floor.reports).toHaveLength(1);
});

test("a report ends with a question: later output goes into the next", async () => {
  const { floor, flush } = makeReporter();
  await flush(usage, question("q1"), usage, question("q2"), question("q3"));
  const parts = [[usage, question("q1")], [usage, question("q2")], [question("q3")]];
  expect(floor.reports.map((report) => report.parts)).toEqual(parts);
});

test("a report is sent at once on request, even if it is empty, and returns the floor's directive for the attempt", async () => {
  const { floor, flush, directives } = makeReporter();
  floor.directive = { verdict: "hold", answers: [] };
  await flush();
  expect(floor.reports).toMatchObject([{ n: 1, parts: [] }]);
  expect(directives).toEqual([floor.directive]);
});

test("a report that is not accepted is repeated unchanged, with growing delays, until it is", async () => {
  const { clock, floor, flush, lost } = makeReporter();
  const failures = [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000];
  floor.fates.push(...failures.map((_, n) => new AppError(n % 2 ? "busy" : "unavailable")));
  await flush(append(0, "la"));
  for (const [n, waitMs] of failures.entries()) {
    expect(floor.reports).toHaveLength(n + 1);
    await clock.advance(waitMs - 1);
    expect(floor.reports).toHaveLength(n + 1);
    await clock.advance(1);
  }
  expect(floor.reports).toHaveLength(failures.length + 1);
  expect(new Set(floor.reports.map((report) => JSON.stringify(report))).size).toBe(1);
  expect(lost).toEqual([]);
  await flush();
  expect(floor.reports.at(-1)).toMatchObject({ n: 2 });
});

test.each([
  ["fails", new AppError("internal"), /./],
  [
    "lacks what it has acknowledged",
    { ok: true as const, directive: { ...GO, expected: 1 } },
    "the floor expects report 1, which it has acknowledged already",
  ],
  [
    "refuses",
    { ok: false as const, code: "session_not_found" as const },
    "the floor refused a report: session_not_found",
  ],
  ["gives no directive", { ok: true as const }, "the floor answered a report without a directive"],
])("a report to a floor that %s is made five times, and then the attempt ends", async (_, fate, reason) => {
  const { clock, floor, reporter, lost, flush } = makeReporter();
  floor.fates.push(...Array.from({ length: 10 }, () => fate));
  await flush(append(0, "la"));
  await clock.advance(60_000);
  expect([floor.reports.length, lost.length]).toEqual([5, 1]);
  expect((lost[0] as Error).message).toMatch(reason);
  // It writes nothing more.
  await flush(append(2, "li"));
  await clock.advance(60_000);
  expect(floor.asked).toHaveLength(5);
  expect(clock.timerCount).toBe(0);
  await reporter.finish({ kind: "done" });
  await reporter.room();
});

test("reports that are rejected for a while between successes are not the floor's fault", async () => {
  const { clock, floor, reporter, lost } = makeReporter();
  const fault = new AppError("internal");
  const away = new AppError("unavailable");
  floor.fates.push(fault, away, fault, away, fault, away, fault, away, away);
  reporter.flush();
  await clock.advance(60_000);
  expect(lost).toEqual([]);
  expect(floor.reports.filter(({ n }) => n === 1)).toHaveLength(10);
});

test("there is room until 256 KiB are unacknowledged, and again once they are acknowledged", async () => {
  const { clock, floor, reporter } = makeReporter();
  floor.hold();
  reporter.add(append(0, "x".repeat(MAX_UNACKNOWLEDGED_UNITS)));
  expect(await isDone(reporter.room(), clock)).toBe(true);
  reporter.add(append(MAX_UNACKNOWLEDGED_UNITS, "x"));
  const room = reporter.room();
  expect(await isDone(room, clock)).toBe(false);
  await clock.advance(60_000);
  expect(await isDone(room, clock)).toBe(false);
  floor.release();
  await clock.advance(0);
  expect(await isDone(room, clock)).toBe(true);
  expect(await isDone(reporter.room(), clock)).toBe(true);
});

const agent = masterRef("m");
const line = { id: "l", stream: "stdout" as const, text: "", timestamp: 0 };
const KIB = "x".repeat(1_000);

test.each<[string, number, ReportPart]>([
  ["many small parts use", 5_000, { kind: "log", messageId: "m" as MessageId, line }],
  ["an agent's output for the page uses", 300, { kind: "data", name: "chart", data: [KIB], agent }],
  [
    "calls of tools use",
    300,
    { kind: "tool_call", call: { toolCallId: "t", function: { name: "f", arguments: KIB } }, agent },
  ],
  [
    "results of tools use",
    300,
    { kind: "tool_result", toolCallId: "t", toolName: "t", content: KIB, status: "success", agent },
  ],
])("%s room", async (_, count, part) => {
  const { clock, floor, reporter } = makeReporter();
  floor.hold();
  for (let n = 0; n < count; n++) reporter.add(part);
  const room = reporter.room();
  expect(await isDone(room, clock)).toBe(false);
  floor.release();
  expect(await isDone(room, clock)).toBe(true);
});

test("an attempt without output asks every 5 s whether it is still wanted, counted from the floor's last answer", async () => {
  const { clock, floor, directives, give } = makeReporter();
  await clock.advance(4_999);
  expect(floor.asked).toEqual([]);
  await clock.advance(1);
  expect(floor.asked).toEqual([{ type: "run.still", ...ABOUT }]);
  expect(directives).toEqual([GO]);
  await clock.advance(3_000);
  await give(250, append(0, "la"));
  expect(floor.reports).toHaveLength(1);
  await clock.advance(4_999);
  expect(floor.stills).toHaveLength(1);
  await clock.advance(1);
  expect(floor.stills).toHaveLength(2);
});

test("an attempt without output asks every second while it waits", async () => {
  const { clock, floor, reporter } = makeReporter();
  await clock.advance(3_000);
  reporter.setPatience(false);
  await clock.advance(0);
  // It has already been silent for longer.
  expect(floor.stills).toHaveLength(1);
  await clock.advance(3_000);
  expect(floor.stills).toHaveLength(4);
  reporter.setPatience(true);
  await clock.advance(4_999);
  expect(floor.stills).toHaveLength(4);
  await clock.advance(1);
  expect(floor.stills).toHaveLength(5);
});

test("an attempt without output asks again when it was not answered", async () => {
  const { clock, floor, directives } = makeReporter();
  floor.fates.push(new AppError("unavailable"), new AppError("internal"), { ok: false, code: "internal" });
  await clock.advance(15_000);
  expect([floor.stills.length, directives]).toEqual([3, []]);
  await clock.advance(5_000);
  expect(directives).toEqual([GO]);
});

test("an attempt sends its next report once the last request is answered: one request at a time", async () => {
  const { clock, floor, give } = makeReporter();
  floor.hold();
  await clock.advance(5_000);
  await give(10_000, append(0, "la"));
  expect(floor.asked.map(({ type }) => type)).toEqual(["run.still"]);
  floor.release();
  await clock.advance(0);
  expect(floor.asked.map(({ type }) => type)).toEqual(["run.still", "run.report"]);
});

test("the end is sent at once with the last report, and is complete once the floor has acknowledged it", async () => {
  const { clock, floor, reporter, directives, flush, give } = makeReporter();
  floor.hold();
  await flush();
  for (let n = 0; n < 2 * MAX_REPORT_PARTS + 1; n++) reporter.add(append(n, "x", `m${n}`));
  const finished = reporter.finish({ kind: "done", summary: "so" });
  expect(await isDone(finished, clock)).toBe(false);
  floor.release();
  await clock.advance(0);
  expect(await isDone(finished, clock)).toBe(true);
  const outcomes = floor.reports.map(({ outcome }) => outcome);
  const { length } = outcomes;
  expect(length).toBe(4);
  expect(outcomes.filter(Boolean)).toEqual([outcomes.at(-1)]);
  expect(outcomes.at(-1)).toEqual({ kind: "done", summary: "so" });
  // The floor's answer to the last report concerns no run.
  expect(directives).toHaveLength(length - 1);
  expect(clock.timerCount).toBe(0);
  await give(60_000, usage);
  expect(floor.asked).toHaveLength(length);
});

test("the end leaves no timer", () => {
  const { clock, reporter } = makeReporter();
  expect(clock.timerCount).toBe(1);
  reporter.close();
  expect(clock.timerCount).toBe(0);
});

test("a closed reporter ends silently, even while a report is in progress", async () => {
  const { clock, floor, reporter, directives } = makeReporter();
  floor.fates.push(...Array.from({ length: 9 }, () => new AppError("unavailable")));
  const finished = reporter.finish({ kind: "done" });
  await clock.advance(200);
  const { length } = floor.asked;
  reporter.close();
  expect(await isDone(finished, clock)).toBe(true);
  await clock.advance(60_000);
  expect([floor.asked.length, directives]).toEqual([length, []]);
});
