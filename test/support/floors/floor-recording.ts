import { makeCatalog } from "../catalogs/catalog.ts";
import type { FloorStage, LooseCommand } from "./floor-stage.ts";

/** Agents that use every key from before sessions could be heard together, and no newer key. */
const AGENTS = [
  { name: "music", priority: 20 },
  { name: "weather", priority: 30, idle_timeout: "7s", after_turn: "yield" },
  { name: "phone", priority: 90, interruptible: false, max_pause: "1h" },
  { name: "navigation", priority: 80, interruptible: false, preemption_threshold: 95 },
  { name: "chat", priority: 10, when_blocked: "queue", queue_timeout: "1m" },
  { name: "planner", priority: 60, when_busy: "enqueue", resume: "manual" },
  { name: "off", priority: 50, enabled: false },
];

export const recordedCatalog = () =>
  makeCatalog(AGENTS, {
    policy: { ties: "newest", max_paused: 2 },
    priority_rules: [{ name: "emergency", agents: ["phone"], when: "emergency", adjust: 10 }],
  });

const session = (sessionId: string, agentId: string): LooseCommand => ({
  type: "session.create",
  sessionId,
  session: { sessionId, agentId, userId: "ann", title: sessionId },
  activate: true,
});
const chat = (sessionId: string, messageId: string): LooseCommand => ({
  type: "session.chat",
  sessionId,
  turn: { messageId, runId: `run-${messageId}`, content: "hello" },
});
const on = (verb: "activate" | "resume" | "pause" | "archive" | "stop" | "abort" | "delete", sessionId: string) =>
  ({ type: `session.${verb}`, sessionId }) as LooseCommand;
const claim = (sessionId: string, runId: string): LooseCommand => ({
  type: "run.claim",
  ...{ sessionId, runId, claimId: "worker", asked: true },
});
const whatIf = (agentId: string): LooseCommand => ({ type: "floor.what_if", agentId });

/** A history in two halves. The second half starts from the snapshot of the first. */
export const HISTORY: readonly [LooseCommand[], LooseCommand[]] = [
  [
    session("m1", "music"),
    chat("m1", "one"),
    claim("m1", "run-one"),
    whatIf("phone"),
    whatIf("nobody"),
    session("w1", "weather"),
    session("c1", "chat"),
    session("m2", "music"),
    session("p1", "phone"),
    session("n1", "navigation"),
    { type: "floor.flags", flags: { emergency: true } },
    whatIf("phone"),
    chat("c1", "two"),
    on("pause", "p1"),
    on("resume", "p1"),
    session("l1", "planner"),
  ],
  [
    on("archive", "p1"),
    on("archive", "w1"),
    { type: "session.switch_agent", sessionId: "c1", agentId: "planner" },
    { type: "session.rename", sessionId: "m1", title: "Songs" },
    on("activate", "l1"),
    session("off", "off"),
    on("stop", "l1"),
    on("abort", "m1"),
    chat("m1", "three"),
    session("p2", "phone"),
    on("delete", "p2"),
    { type: "floor.stop" },
    { type: "floor.stop_all" },
    session("m3", "music"),
    on("delete", "m3"),
  ],
];

/** The events and the answer of each command, as JSON. */
export function play(stage: FloorStage, commands: readonly LooseCommand[]): string[] {
  return commands.map((command) => {
    stage.now += 1_000;
    const { facts, reply } = stage.deliver(command);
    return JSON.stringify({ command: command.type, facts, reply });
  });
}
