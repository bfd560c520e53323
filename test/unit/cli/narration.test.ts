import { expect, it } from "vitest";
import { narrate } from "../../../src/cli/narration.ts";
import { parseServerEvent, type ServerEvent } from "../../../src/client/server-event.ts";

let at = 0;
function event(type: string, data: object, sessionId?: string): ServerEvent {
  at += 10;
  const timestamp = new Date(at).toISOString();
  return parseServerEvent(JSON.stringify({ type, data, timestamp, sessionId }))!;
}

const created = (id: string, agentId: string) => event("session_created", { agentId }, id);
const moved = (id: string, verb: string, more: object = {}) =>
  event("session_transition", { from: "created", to: "paused", event: verb, ...more }, id);
const said = (id: string, offset: number, text: string) =>
  event(
    "delta",
    { messageId: `${id}-1`, runId: "r", attempt: 1, kind: "text", offset, text, agent: { path: ["m"] } },
    id,
  );
const decided = (outcome: string, reason: string, more: object, id?: string) =>
  event("arbitration", { outcome, reason, challenger: { agentId: "chat", priority: 10 }, say: "好", ...more }, id);

const HOLDER = { sessionId: "m", agentId: "music", priority: 5, interruptible: true };

/** The narration, one line per item. */
function tell(heard: ServerEvent[], floor: ServerEvent[] = []): string[] {
  const lines = narrate(heard, floor, (id) => id.toUpperCase());
  return lines.map(({ agentId, mark, text }) => `${agentId} ${mark} ${text}`);
}

it("a granted request is narrated with its reason, after its commit", () => {
  const lines = tell([
    created("m", "music"),
    created("c", "chat"),
    decided("granted", "preempted", { holder: HOLDER }, "c"),
    moved("m", "preempt", { by: { sessionId: "c", agentId: "chat" } }),
    moved("c", "activate"),
    moved("c", "turn"),
    moved("c", "yield"),
    decided("granted", "resumed", {}, "m"),
    moved("m", "resume"),
    moved("m", "archive"),
  ]);
  expect(lines).toEqual([
    "music ‖ is paused for CHAT",
    "chat ▶ has the floor: 10 > 5, and MUSIC may be interrupted (preempted) “好”",
    "chat ‖ has done its turn and gives the floor back",
    "music ▶ goes on (resumed) “好”",
    "music ■ ends",
  ]);
});

it("a refused request is narrated with its reason and the priority it would need", () => {
  const wouldNeed = "priority > 5";
  const lines = tell([
    created("c", "chat"),
    decided("queued", "equal_priority", { holder: { ...HOLDER, priority: 10 } }, "c"),
    decided("rejected", "queue_timeout", {}, "c"),
    decided("rejected", "lower_priority", { holder: { ...HOLDER, priority: 20 }, wouldNeed }, "c"),
  ]);
  expect(lines).toEqual([
    "chat · waits: 10 = 10 (equal_priority) “好”",
    "chat ✗ is refused: (queue_timeout) “好”",
    "chat ✗ is refused: 10 < 20 (lower_priority) “好”",
    "chat   would need priority > 5",
  ]);
});

it("a session that a critical one of lower priority refuses is not said to have less", () => {
  const lines = tell([created("c", "chat"), decided("rejected", "lower_priority", { holder: HOLDER }, "c")]);
  expect(lines).toEqual(["chat ✗ is refused: 10 against 5 (lower_priority) “好”"]);
});

it("a session that waits no more is not said to have had its turn", () => {
  const lines = tell([created("c", "chat"), moved("c", "yield", { to: "created", reason: "after_turn" })]);
  expect(lines).toEqual(["chat ‖ waits no more: its message was withdrawn"]);
});

it("a failed run is narrated, and a refusal is not told a second time by its error", () => {
  const failure = event("error", { errorCode: "run_lost", message: "The run was lost.", runId: "r" }, "m");
  const refusal = event("error", { errorCode: "rejected", message: "好" }, "m");
  const lines = tell([created("m", "music"), failure, decided("rejected", "lower_priority", {}, "m"), refusal]);
  expect(lines).toEqual(["music ✗ fails: The run was lost. (run_lost)", "music ✗ is refused: (lower_priority) “好”"]);
});

it("messages of two sessions are told, although clients gave them one id", () => {
  const typed = (sessionId: string) =>
    event("message", { id: "1", sessionId, role: "user", content: `to ${sessionId}`, streaming: false }, sessionId);
  const lines = tell([created("m", "music"), created("c", "chat"), typed("m"), typed("c")]);
  expect(lines).toEqual(["music ‹ to m", "chat ‹ to c"]);
});

it("a refusal that left no session is narrated where it happened", () => {
  const before = [created("m", "music"), said("m", 0, "one")];
  const refusal = decided("rejected", "lower_priority", { holder: { ...HOLDER, priority: 20 } });
  const after = [said("m", 3, " two")];
  const inNobodysLog = decided("rejected", "lower_priority", { holder: { ...HOLDER, priority: 20 } });
  expect(tell([...before, ...after], [before[0]!, refusal, inNobodysLog])).toEqual([
    "music › one",
    "chat ✗ is refused: 10 < 20 (lower_priority) “好”",
    "music › … two",
    "chat ✗ is refused: 10 < 20 (lower_priority) “好”",
  ]);
});

it("consecutive text becomes one line, and no text is repeated", () => {
  const whole = {
    id: "m-1",
    sessionId: "m",
    role: "assistant",
    content: "one two three",
    agent: { path: ["m"] },
    streaming: false,
  };
  const asked = { id: "u", sessionId: "m", role: "user", content: "count", streaming: false };
  const lines = tell([
    created("m", "music"),
    event("message", asked, "m"),
    said("m", 0, "one"),
    said("m", 3, " two"),
    said("m", 3, " two"),
    moved("m", "pause"),
    said("m", 7, " thr"),
    event("message", whole, "m"),
  ]);
  expect(lines).toEqual(["music ‹ count", "music › one two", "music ‖ is paused by its user", "music › … three"]);
});

it("an expired lease is narrated for the holder, and for the session that would have resumed", () => {
  const lines = tell([
    created("m", "music"),
    moved("m", "yield", { from: "active.idle", to: "paused", reason: "lease_expired" }),
    moved("m", "yield", { from: "paused", to: "paused", reason: "lease_expired" }),
  ]);
  expect(lines).toEqual([
    "music ‖ sent no heartbeat and lost its place",
    "music ‖ sent no heartbeat and lost its place: it does not come back by itself",
  ]);
});

it("a session that takes the floor from its equal is not said to outrank it", () => {
  const lines = tell([
    created("c", "chat"),
    decided("granted", "preempted", { holder: { ...HOLDER, priority: 10, interruptible: false } }, "c"),
    moved("c", "activate"),
  ]);
  expect(lines).toEqual(["chat ▶ has the floor: 10 = 10, and MUSIC lets that much through (preempted) “好”"]);
});

it("a ducked session is narrated with its level, and a silenced or ended one with the reason", () => {
  const by = { sessionId: "c", agentId: "chat" };
  const lines = tell([
    created("m", "music"),
    moved("m", "duck", { from: "active.idle", to: "ducked.idle", level: -14, by }),
    moved("m", "duck", { from: "ducked.idle", to: "ducked.idle", level: 0 }),
    moved("m", "resume", { from: "ducked.idle", to: "active.idle" }),
    moved("m", "yield", { from: "active.idle", reason: "max_hold" }),
    moved("m", "yield", { from: "active.idle", reason: "idle_timeout" }),
    moved("m", "duck", { from: "paused", to: "ducked.idle", level: -6 }),
    moved("m", "preempt", { from: "ducked.idle", reason: "restricted" }),
    moved("m", "archive", { from: "paused", to: "archived", reason: "replaced", by }),
    created("p", "prompt"),
    moved("p", "duck", { from: "created", to: "ducked.idle", level: 0, by }),
  ]);
  expect(lines).toEqual([
    "music ▽ goes on beneath CHAT, 14 dB quieter",
    "music ▽ goes on, at its own volume",
    "music ▶ is in front, at its own volume",
    "music ‖ was heard for as long as it may be",
    "music ‖ had nothing to do for too long, and gives the floor back",
    "music ▽ comes back, 6 dB quieter",
    "music ‖ is paused: it is not allowed now",
    "music ■ is replaced by CHAT",
    "prompt ▽ starts beneath CHAT, at its own volume",
  ]);
});

it("a sentence is narrated with who hears it, by which row, and who else might have", () => {
  const chosen = { agent: "music", by: "says", row: 3, alternatives: ["chat"], took: 1 };
  const ignored = { ignored: true, by: "says", row: 1, alternatives: [], took: 0 };
  const sentences = [created("m", "music"), event("routed", chosen, "m"), event("routed", ignored)];
  expect(tell(sentences)).toEqual([
    "music ‹ hears the sentence: row 3 of routing fits it; would fit too: CHAT",
    " ‹ nobody hears the sentence: row 1 of routing fits it",
  ]);
});
