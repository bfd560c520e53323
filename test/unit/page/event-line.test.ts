import { expect, test } from "vitest";
import { lineOf } from "../../../page/log/event-line.ts";
import type { LogEvent } from "../../../page/log/log-event.ts";
import { en } from "../../../page/words/en.ts";
import { fill } from "../../../page/words/sentence.ts";

const telling = { say: (key: keyof typeof en, values = {}) => fill(en[key], values), agentName: (id: string) => id };
const line = (type: string, data: object) => lineOf({ type, data } as unknown as LogEvent, telling);

test("a message is printed with its role, and a summary as a summary", () => {
  const reply = { role: "assistant", content: "It rains." };
  expect(line("message", reply)).toEqual({ name: "assistant", text: "It rains." });
  expect(line("message", { ...reply, summary: { upTo: "m1" } })).toEqual({ name: "summary", text: "It rains." });
});

test("a transition is printed with both regions, its level and its reason", () => {
  const data = { event: "duck", from: "active.idle", to: "ducked", level: -14, by: { agentId: "phone" } };
  expect(line("session_transition", data)).toEqual({
    name: "duck",
    text: "active.idle → ducked -14 dB · by phone",
  });
  const activity = { from: "running", to: "idle" };
  expect(line("session_transition", { event: "done", from: "paused", to: "paused", activity }).text).toBe(
    "paused (running → idle)",
  );
});

test("a decision is printed with a sign and its reason", () => {
  const challenger = { agentId: "chat", priority: 10 };
  const holder = { agentId: "phone", priority: 90 };
  expect(line("arbitration", { outcome: "rejected", reason: "lower_priority", challenger, holder })).toEqual({
    sign: "✕",
    text: "chat (10) was refused: 10 is less than 90 of phone.",
  });
  const chime = { agentId: "chime", priority: 5 };
  expect(line("arbitration", { outcome: "rejected", reason: "lower_priority", challenger, holder: chime }).text).toBe(
    "chat (10) was refused: chime is critical.",
  );
});

test("a session that starts beneath the holder is heard, and does not get the floor", () => {
  const challenger = { agentId: "prompt", priority: 80 };
  const holder = { agentId: "phone", priority: 90 };
  const decision = { outcome: "granted", reason: "beneath", challenger, holder };
  expect(line("arbitration", decision)).toEqual({ sign: "✓", text: "prompt (80) is heard: beneath phone." });
});

test("a sentence is printed with who hears it, by which row, and who else might have", () => {
  const chosen = { agent: "music", by: "says", row: 3, alternatives: ["chat"], took: 1 };
  expect(line("routed", chosen)).toEqual({ name: "routed", text: "music · row 3 fits · also fit: chat" });
  expect(line("routed", { ignored: true, by: "says", row: 1, alternatives: [] }).text).toBe("nobody · row 1 fits");
});

test("the end of a run is printed with its tokens", () => {
  expect(line("complete", { tokenCount: 1 })).toEqual({ name: "complete", text: "1 token" });
  expect(line("complete", { tokenCount: 5, cancelled: true })).toEqual({ name: "cancelled", text: "5 tokens" });
});

test("no line exceeds the width of a screen", () => {
  expect(line("message", { role: "user", content: "long ".repeat(1_000) }).text).toHaveLength(200);
});
