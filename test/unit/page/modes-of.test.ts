import { expect, test } from "vitest";
import { modesOf } from "../../../page/session/head/modes-of.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";

const id = "a" as AgentId;
const names = ["talk", "work"];
const agents = [{ id, modes: names }, { id: "plain" as AgentId }];

test("a session's modes are its agent's, and the first is current until another is chosen", () => {
  expect(modesOf(agents, { agentId: id, mode: undefined }, true)).toEqual({ names, current: "talk" });
  expect(modesOf(agents, { agentId: id, mode: "work" }, true)).toEqual({ names, current: "work" });
});

test("a session of an agent without modes has no modes", () => {
  expect(modesOf(agents, { agentId: "plain" as AgentId, mode: undefined }, true)).toBeUndefined();
  expect(modesOf([], { agentId: id, mode: undefined }, true)).toBeUndefined();
});

test("a mode that the catalogue has lost counts as the first one now, and is shown unchanged at a past moment", () => {
  const session = { agentId: id, mode: "gone" };
  expect(modesOf(agents, session, true)).toEqual({ names, current: "talk" });
  expect(modesOf(agents, session, false)).toEqual({ names: ["gone", "talk", "work"], current: "gone" });
  expect(modesOf([], session, false)).toEqual({ names: ["gone"], current: "gone" });
});
