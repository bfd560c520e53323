import { expect, test } from "vitest";
import { heardUnits } from "../../../src/protocol/heard.ts";
import type { AgentRef } from "../../../src/protocol/message.ts";

const reply = (content: string, playedUpTo?: number, runId = "r1", kind: AgentRef["kind"] = "master") =>
  ({ role: "assistant", content, runId, agent: { kind, name: "a", depth: 0, path: ["a"] }, playedUpTo }) as Parameters<
    typeof heardUnits
  >[0][number];

test.each([
  ["without a position all is heard", [reply("One."), reply("Two.")], [4, 4]],
  [
    "a turn has the position of its last message with one",
    [reply("One.", 1), reply("Two.", 2), reply("Three.")],
    [4, 2, 0],
  ],
  ["each turn has its own", [reply("One.", 1), reply("Two.", undefined, "r2")], [1, 4]],
  ["a sub-agent's message is not spoken", [reply("One.", 1), reply("Two.", undefined, "r1", "sub")], [1, 4]],
  ["a rest without a word was heard", [reply("One. \n🎵", 3), reply("Two.")], [8, 4]],
  ["a rest with a word in any script was not", [reply("好。是", 2), reply("Two.")], [2, 0]],
  ["a whole message cuts nothing off", [reply("One.", 4), reply("Two.")], [4, 4]],
])("%s", (_, messages, units) => {
  expect(heardUnits(messages)).toEqual(units);
});

test("a message without a run is a turn of its own", () => {
  const imported = [reply("One.", 1), reply("Two.")].map(({ runId: _, ...message }) => message);
  expect(heardUnits(imported)).toEqual([1, 4]);
});
