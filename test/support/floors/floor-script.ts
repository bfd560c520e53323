import { expect } from "vitest";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import { decisionOf, FloorStage } from "./floor-stage.ts";

/** The sessions of a floor: the holder, the ducked, the paused by preemption, and the queued. */
export function pictureOf({ actors }: FloorStage): string {
  const { holder, ducked, paused, queued, reserved } = actors.context.floor;
  const names = (contenders: readonly { sessionId: string }[]) => contenders.map(({ sessionId }) => sessionId).join();
  const low = ducked.map(({ sessionId, level }) => `${sessionId}@${level}`).join();
  const parts = [`A=${holder?.sessionId ?? ""}`, `D=${low}`, `P=${names(paused)}`, `Q=${names(queued)}`];
  return [...parts, ...(reserved ? [`R=${reserved.sessionId}`] : [])].filter((part) => !part.endsWith("=")).join(" ");
}

/**
 * One command in words: `start song:music`, `end song`, `on r`, `stop`, `pass 1000`; `miss 1000`: without alarms.
 *
 * @param serial names the message of `say`; `claim` is of the message with the number before
 */
function carryOut(floor: FloorStage, line: string, serial: number): Reply | undefined {
  const [verb = "", what = ""] = line.split(" ");
  const [id = "", agentId = id] = what.split(":");
  switch (verb) {
    case "start":
      return floor.create(agentId, { id });
    case "end":
      return floor.on(id, "archive");
    case "say":
      return floor.chat(id, `m${serial}`);
    case "claim":
      return floor.claim(id, `run-m${serial - 1}`);
    case "fail":
    case "finish": {
      const { id: runId, reported } = floor.actors.machineState(id as never)!.context.run!;
      const failed = { kind: "failed", code: "provider_refused", message: "no" } as const;
      return floor.report(id, runId, reported + 1, { outcome: verb === "fail" ? failed : { kind: "done" } });
    }
    case "on":
    case "off":
      return floor.ask({ type: "floor.patch_flags", flags: { [id]: verb === "on" } });
    case "switch":
      return floor.ask({ type: "session.switch_agent", sessionId: id, agentId });
    case "stop":
      return floor.ask({ type: "floor.stop" });
    case "pass":
      floor.pass(Number(what));
      return undefined;
    case "miss":
      floor.now += Number(what);
      return undefined;
    default:
      return floor.on(id, verb as "pause");
  }
}

/** Carry out commands in words, divided by `; `. Each decision's outcome and reason are returned. */
export function play(floor: FloorStage, script: string): string[] {
  return script.split("; ").flatMap((line, index) => {
    const reply = carryOut(floor, line, index);
    const decision = reply && decisionOf(reply);
    return decision ? [`${decision.outcome} ${decision.reason}`] : [];
  });
}

/** One command, its decision, and each transition with its new level, as `song duck ducked.idle -14`. */
export function hear(floor: FloorStage, line: string) {
  const before = floor.facts.length;
  const reply = carryOut(floor, line, before);
  const heard = floor.facts.slice(before).flatMap((fact) => {
    if (fact.type !== "event" || fact.event.type !== "session_transition") return [];
    const { event, to, level } = fact.event.data;
    return [`${fact.event.sessionId} ${event} ${to}${level === undefined ? "" : ` ${level}`}`];
  });
  return { decision: reply && decisionOf(reply), heard };
}

/**
 * Carry out a scene, line by line: commands whose effects are not looked at; a command with ` → `, the transitions that
 * it causes in their order, or `nothing`, and perhaps `: outcome reason rule`; `=` and the floor at the end.
 */
export function expectScene(catalog: Catalog, scene: string): void {
  const floor = new FloorStage(catalog);
  for (const line of scene.trim().split(/\n\s*/)) {
    const [command = "", outcome] = line.split(" → ");
    if (line.startsWith("=")) expect(`= ${pictureOf(floor)}`.trim()).toBe(line);
    else if (outcome === undefined) play(floor, command);
    else {
      const [moves, decided] = outcome.split(": ");
      const { decision, heard } = hear(floor, command);
      expect(heard.join(", ") || "nothing", command).toBe(moves);
      if (decided) expect(`${decision?.outcome} ${decision?.reason} ${decision?.rule}`, command).toBe(decided);
    }
  }
}
