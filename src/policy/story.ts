import { BrokenActors } from "../actors/host/floor-actors.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import { NOTHING_OWED, type Owed } from "./claims.ts";
import { checkMove, EXPLORED_FROM, firstFloor, type TimedMove, type Violation } from "./exploration.ts";
import { HourCombinations } from "./hour-combinations.ts";
import type { ExploredMove } from "./moves.ts";
import { readScript } from "./script.ts";
import { findScriptFaults } from "./script-names.ts";
import { type SeenEvent, seenEvent } from "./seen-step.ts";
import { play } from "./simulation.ts";
import { lapseMs } from "./stepped-floor.ts";

/** A violation as a script for `interlock simulate`, which was played and shows it. */
export interface Story {
  readonly script: string;
}

/** Why there is no story: a fault of the prover. */
export interface NoStory {
  readonly fault: string;
}

/**
 * Tell a violation as a script. The script is played, and what it shows is compared with what was found.
 */
export function storyOf(violation: Violation, catalog: Catalog): Story | NoStory {
  const times = solve(violation.moves);
  if (!times) return { fault: "its moments contradict each other" };
  const found = repeat(violation, times, catalog);
  if ("fault" in found) return found;
  const script = write(violation, times, found.lapses, catalog);
  const read = readScript(script);
  const [fault] = read.ok ? findScriptFaults(read, [catalog]) : read.faults;
  if (fault || !read.ok) return { fault: `its script has a fault: ${fault!.message}` };
  try {
    const { events } = play(read, { catalog });
    const difference = differ(lines(found.events), lines(events.flatMap(seenEvent)));
    return difference === undefined ? { script } : { fault: difference };
  } catch (error) {
    // The script plays what breaks the floor.
    if (error instanceof BrokenActors && violation.what.startsWith("the floor breaks")) return { script };
    throw error;
  }
}

/** The earliest moments of the steps, in ms after the beginning; undefined if they contradict each other. */
function solve(moves: readonly TimedMove[]): number[] | undefined {
  const times = [0, ...moves.map(() => 0)];
  const constraints = moves.flatMap((move) => move.constraints);
  for (let round = 0; round <= times.length; round++) {
    let isSame = true;
    for (const { later, earlier, most, isStrict } of constraints) {
      const least = times[later]! - most + (isStrict ? 1 : 0);
      if (times[earlier]! >= least) continue;
      times[earlier] = least;
      isSame = false;
    }
    if (isSame) return times[0] === 0 ? times : undefined;
  }
  return undefined;
}

interface Repeated {
  readonly events: readonly SeenEvent[];
  /** By the index of the move: the length of the lease that runs out. */
  readonly lapses: ReadonlyMap<number, number>;
}

/** Make the moves at these moments on a new floor, and find the violation again. */
function repeat(violation: Violation, times: readonly number[], catalog: Catalog): Repeated | NoStory {
  const { moves, what, claim } = violation;
  const hours = new HourCombinations(catalog, EXPLORED_FROM);
  const lapses = new Map<number, number>();
  const events: SeenEvent[] = [];
  let floor = firstFloor(catalog);
  let owed: Owed = NOTHING_OWED;
  for (const [index, { move }] of moves.entries()) {
    const time = times[index + 1]!;
    const due = floor.nextDue() ?? Number.POSITIVE_INFINITY;
    if (due <= time !== (move.does === "wait")) return { fault: `its move ${index + 1} does not come when it should` };
    if (move.does === "dies") lapses.set(index, floor.session(move.sessionId)!.context.lease!.lengthMs);
    const checked = checkMove(floor.at(time), move, owed, claim ? [claim] : [], hours);
    if (checked.step) events.push(...checked.step.events);
    if (index === moves.length - 1) return atEnd(checked.faults, what) ?? { events, lapses };
    if (!checked.step) return { fault: `it breaks at its move ${index + 1}` };
    floor = checked.step.after;
    owed = checked.owed;
  }
  return { fault: "it is empty" };
}

/** Why the end of a sequence is another than the one that was found; undefined if it is that one. */
function atEnd(faults: readonly Omit<Violation, "moves">[], what: string): NoStory | undefined {
  const isFound = faults.some((fault) => fault.what === what);
  return isFound ? undefined : { fault: `at its end it shows ${faults[0]?.what ?? "nothing"}` };
}

interface Line {
  readonly at: number;
  /** What is done; empty if time passes, or the clock is set. */
  readonly text: string;
  /** Which rules with hours apply; undefined: as before. */
  readonly inForce?: string | undefined;
}

/** The script: its steps in the order of their moments. */
function write({ moves, what }: Violation, times: readonly number[], lapses: Repeated["lapses"], catalog: Catalog) {
  const lines = moves.flatMap(({ move, inForce }, index): Line[] => {
    const at = times[index + 1]!;
    if (move.does === "clock") return [{ at, text: "", inForce: move.inForce }];
    if (move.does !== "dies") return [{ at, inForce, text: textOf(move, times.at(-1)!) }];
    const length = lapses.get(index)!;
    return [
      { at: at - lapseMs(length), text: `dies: ${move.sessionId}` },
      { at, inForce, text: "" },
    ];
  });
  // The order of steps at the same moment stays.
  const ordered = lines.toSorted((one, other) => one.at - other.at);
  const start = new Date(EXPLORED_FROM).toISOString();
  const steps = withClock(ordered, new HourCombinations(catalog, EXPLORED_FROM)).map(({ after, text }, index) => {
    const when = index === 0 ? `at: "${start.slice(11, 16)}"` : after > 0 ? `after: ${after}ms` : "";
    return `  - { ${[when, text].filter((part) => part !== "").join(", ")} }\n`;
  });
  return `title: ${JSON.stringify(what)}\nday: ${start.slice(0, 10)}\nsteps:\n${steps.join("")}`;
}

/**
 * The lines with the time between them, and with settings of the clock wherever other rules would apply: at a line, or
 * on the way to it.
 */
function withClock(lines: readonly Line[], hours: HourCombinations): { after: number; text: string }[] {
  const steps: { after: number; text: string }[] = [];
  let now = EXPLORED_FROM;
  let waits = 0;
  const add = (text: string) => {
    steps.push({ after: waits, text });
    waits = 0;
  };
  const set = (inForce: string) => {
    now = hours.next(inForce, now);
    add(`clock: "${new Date(now).toISOString().slice(0, 16).replace("T", " ")}"`);
  };
  const pass = (ms: number) => {
    waits += ms;
    now += ms;
  };
  let last = 0;
  for (const { at, text, inForce } of lines) {
    const present = hours.at(now);
    for (let left = at - last; left > 0; ) {
      if (hours.lasts(now, left + 1) <= left) set(present);
      const ms = Math.min(left, hours.lasts(now, left + 1) - 1);
      pass(ms);
      left -= ms;
    }
    last = at;
    if (inForce !== undefined && hours.at(now) !== inForce) set(inForce);
    if (text !== "") add(text);
  }
  if (waits > 0) add("");
  return steps;
}

/** Turns end when a step says so, or not at all. */
const TURN_FOR_MS = 3_600_000;

/** @param totalMs how long the whole story takes */
function textOf(move: ExploredMove, totalMs: number): string {
  switch (move.does) {
    case "says": {
      const { agentId = move.sessionId, sessionId } = move;
      const length = totalMs < TURN_FOR_MS ? "1h" : `${totalMs + 1}ms`;
      return `says: ${agentId}${sessionId === agentId ? "" : `, as: ${sessionId}`}, for: ${length}`;
    }
    case "answers":
      return `answers: ${move.sessionId}`;
    case "fails":
      return `answers: ${move.sessionId}, fails: true`;
    case "asks":
      return `asks: ${move.agentId}${move.sessionId === move.agentId ? "" : `, as: ${move.sessionId}`}`;
    case "resumes":
    case "pauses":
    case "ends":
    case "dies":
    case "cancels":
      return `${move.does}: ${move.sessionId}`;
    case "set":
    case "clear":
      return `${move.does}: ${move.flag}`;
    case "disable":
    case "enable":
      return `${move.does}: ${move.agentId}`;
    case "clock":
    case "wait":
      return "";
  }
}

/** What a reader sees of the events. Sessions have the number in which they appear. */
function lines(events: readonly SeenEvent[]): string[] {
  const numbers = new Map<string, number>();
  const number = (id: string) => {
    if (!numbers.has(id)) numbers.set(id, numbers.size);
    return numbers.get(id)!;
  };
  return events.map((event) => {
    if (event.type === "decision") {
      const { outcome, reason, challenger } = event.decision;
      return `${challenger.agentId}: ${outcome} (${reason})`;
    }
    const { sessionId, from, to, event: name, reason, level } = event.transition;
    return `session ${number(sessionId)}: ${from} → ${to} (${name}, ${reason}, ${level})`;
  });
}

function differ(found: readonly string[], played: readonly string[]): string | undefined {
  const length = Math.max(found.length, played.length);
  for (let at = 0; at < length; at++) {
    if (found[at] === played[at]) continue;
    return `after ${at} events it was “${found[at] ?? "nothing"}”, and the script plays “${played[at] ?? "nothing"}”`;
  }
  return undefined;
}
