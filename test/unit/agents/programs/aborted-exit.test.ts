import { expect, test } from "vitest";
import { acpAdapter, commandAdapter, talking } from "../../../support/agents/programs.ts";
import { createRunStage, play, turnOf } from "../../../support/agents/run-stage.ts";

test.each([
  ["command", commandAdapter("stubborn"), "go"],
  ["acp", acpAdapter(), "stall"],
])("the exit of a program whose run is aborted is logged by the node, once (%s)", async (_, adapter, content) => {
  const { agent, logged } = talking(adapter);
  const stage = createRunStage();
  const parts = agent.run(turnOf(content), stage.control)[Symbol.asyncIterator]();
  // Resolves when it has started to work.
  while ((await parts.next()).value?.type !== "text");
  stage.abort();
  await parts.next().catch(() => {});
  await parts.return?.(undefined);
  expect(logged.filter(({ message }) => /aborted run/.test(message))).toEqual([
    {
      facts: {
        agentId: "subject",
        sessionId: expect.any(String),
        runId: "run_1",
        code: expect.toSatisfy((code) => code === null || typeof code === "number"),
        signal: expect.toSatisfy((signal) => signal === null || typeof signal === "string"),
        durationMs: expect.any(Number),
      },
      message: "the program of an aborted run has ended",
    },
  ]);
});

test("the exit of a program that ends by itself is reported to its run, and not logged", async () => {
  const { agent, logged } = talking();
  const parts = await play(agent, turnOf("speak"));
  expect(parts.at(-1)).toMatchObject({ type: "exit", code: 0 });
  expect(logged.filter(({ message }) => /aborted run/.test(message))).toEqual([]);
});
