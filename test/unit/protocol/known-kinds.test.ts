import { expect, test } from "vitest";
import { COMMAND_TYPES } from "../../../src/protocol/internal/command.ts";
import { ReportPart, RunOutcome, RunSignal, SummaryResult } from "../../../src/protocol/internal/run.ts";

/**
 * Nodes of the former release refuse what is of another kind than these (rule C24), and the sender repeats it until a node
 * that knows it is in charge: a run would stand still until the last node is replaced. What such a node may do without is
 * therefore an optional field of a kind that it knows. A new kind may be added here once no node of an earlier release
 * can receive it, or if waiting is right.
 */
test("runs report in kinds that the former release knows", () => {
  const kinds = ReportPart.options.map(({ shape }) => shape.kind.value);
  const known = [
    "open",
    "append",
    "close",
    "tool_call",
    "tool_result",
    "ask",
    "usage",
    "provider_session",
    "log",
    "data",
  ];
  expect(kinds).toEqual(known);
  expect(RunOutcome.options.map(({ shape }) => shape.kind.value)).toEqual(["done", "failed", "stopped", "lost"]);
  expect(SummaryResult.options.map(({ shape }) => shape.kind.value)).toEqual(["written", "unneeded", "failed", "lost"]);
  expect(
    RunSignal.options.flatMap<string>(({ shape: { signal } }) =>
      "options" in signal ? signal.options : [...signal.values],
    ),
  ).toEqual(["who", "stop", "hold", "go", "answer"]);
  const ofRuns = [...COMMAND_TYPES].filter((type) => type.startsWith("run."));
  expect(ofRuns).toEqual(["run.claim", "run.report", "run.still", "run.summary"]);
});
